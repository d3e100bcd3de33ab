"""Every public name of Stable-Baselines3's and sb3-contrib's on-policy modules is there, or its absence explained."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import types
import typing
from types import ModuleType

import pytest
import sb3_contrib
import stable_baselines3

import proximo.sb3
import proximo.sb3_contrib

PACKAGES = {"stable_baselines3": "proximo.sb3", "sb3_contrib": "proximo.sb3_contrib"}

ABSENT_MODULES = {
    "stable_baselines3.dqn": "off-policy",
    "stable_baselines3.ddpg": "off-policy",
    "stable_baselines3.her": "off-policy",
    "stable_baselines3.sac": "off-policy",
    "stable_baselines3.td3": "off-policy",
    "stable_baselines3.common.noise": "action noise of off-policy algorithms",
    "stable_baselines3.common.off_policy_algorithm": "off-policy",
    "stable_baselines3.common.save_util": "reads and writes pickles; model files are Proximo's own",
    "sb3_contrib.ars": "random search, not a policy gradient",
    "sb3_contrib.crossq": "off-policy",
    "sb3_contrib.qrdqn": "off-policy",
    "sb3_contrib.tqc": "off-policy",
    "sb3_contrib.common.torch_layers": "batch renormalisation, of CrossQ",
    "sb3_contrib.common.utils": "quantile loss of off-policy algorithms, and TRPO's inner helpers",
    "sb3_contrib.common.vec_env": "evaluation in processes, of ARS",
}

HANDED_OUT = {  # names that off-policy algorithms need: those of the real library, where it is installed
    "stable_baselines3.common.buffers": {"ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer"},  # off-policy
    "stable_baselines3.common.policies": {"ContinuousCritic"},  # off-policy
    "stable_baselines3.common.type_aliases": {  # off-policy
        "ReplayBufferSamples",
        "DictReplayBufferSamples",
        "RolloutReturn",
        "TrainFreq",
        "TrainFrequencyUnit",
    },
    "stable_baselines3.common.utils": {"should_collect_more_steps"},  # off-policy
}

OWN_CODE = {
    "stable_baselines3.common.base_class": {"maybe_make_env"},
    "stable_baselines3.common.results_plotter": {
        "plot_curves",
        "plot_results",
        "rolling_window",
        "ts2xy",
        "window_func",
    },
    "stable_baselines3.common.utils": {
        "check_shape_equal",
        "constant_fn",
        "get_linear_fn",
        "get_parameters_by_name",
        "get_schedule_fn",
        "get_system_info",
        "polyak_update",
        "safe_mean",
        "zip_strict",
    },
    "stable_baselines3.common.vec_env.util": {"dict_to_obs", "obs_space_info"},
    "sb3_contrib.common.recurrent.buffers": {
        "RecurrentRolloutBuffer",
        "RecurrentDictRolloutBuffer",
        "create_sequencers",
        "pad",
        "pad_and_flatten",
    },
    "sb3_contrib.common.maskable.evaluation": {"evaluate_policy"},  # which asks for masks by default
}


def modules_of(library: str) -> list[str]:
    package = importlib.import_module(library)
    return sorted(module.name for module in pkgutil.walk_packages(package.__path__, f"{library}."))


def explained(name: str) -> bool:
    return any(name == gone or name.startswith(gone + ".") for gone in ABSENT_MODULES)


def ours_of(name: str) -> str:
    library = name.split(".")[0]
    return name.replace(library, PACKAGES[library], 1)


MODULES = [name for library in PACKAGES for name in modules_of(library) if not explained(name)]


ALIASES = (types.GenericAlias, types.UnionType, type(typing.Union[int, str]), type(typing.Callable[[int], int]))  # noqa: UP007


def public_names(module: ModuleType) -> set[str]:
    """What a module exports, or else what it defines: classes, functions, constants, aliases of types."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names = set()
    for name, value in vars(module).items():
        defined_here = (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
        constant = isinstance(value, str | int | float | list) and name.isupper() and name != "TYPE_CHECKING"
        if not name.startswith("_") and (defined_here or constant or isinstance(value, ALIASES)):
            names.add(name)
    return names


@pytest.mark.parametrize("library", PACKAGES)
def test_every_module_is_mirrored_or_explained(library: str) -> None:
    wanted = {ours_of(name) for name in MODULES if name.split(".")[0] == library}
    assert set(modules_of(PACKAGES[library])) == wanted


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_mirrored_or_explained(name: str) -> None:
    ours = importlib.import_module(ours_of(name))
    theirs = public_names(importlib.import_module(name))
    missing = {each for each in theirs if not hasattr(ours, each)}
    assert not missing


@pytest.mark.parametrize("name", MODULES)
def test_code_of_the_packages_is_what_nothing_else_needs(name: str) -> None:
    """A compatibility module names functions and classes of the library; it defines those that only it exposes."""
    ours = importlib.import_module(ours_of(name))
    implemented = {
        key
        for key, value in vars(ours).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == ours.__name__
    }
    assert implemented == OWN_CODE.get(name, set())


ALGORITHMS = [
    "stable_baselines3.PPO",
    "stable_baselines3.A2C",
    "sb3_contrib.TRPO",
    "sb3_contrib.RecurrentPPO",
    "sb3_contrib.MaskablePPO",
]


def both(path: str) -> tuple[typing.Any, typing.Any]:
    """What a path names in the library it is of, and in the compatibility package."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name), getattr(importlib.import_module(ours_of(module)), name)


def defaults(kind: type) -> dict[str, typing.Any]:
    return {parameter.name: parameter.default for parameter in inspect.signature(kind).parameters.values()}


@pytest.mark.parametrize("path", ALGORITHMS)
def test_constructor_has_the_same_arguments_and_defaults(path: str) -> None:
    theirs, ours = map(defaults, both(path))
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("path", ALGORITHMS)
def test_constructor_takes_its_arguments_in_the_same_order(path: str) -> None:
    theirs, ours = (list(inspect.signature(kind.__init__).parameters) for kind in both(path))
    assert ours[: len(theirs)] == theirs


@pytest.mark.parametrize("method", ["learn", "predict", "save", "load", "set_parameters", "set_env", "set_logger"])
@pytest.mark.parametrize("path", ALGORITHMS)
def test_methods_have_the_same_arguments_and_defaults(path: str, method: str) -> None:
    theirs, ours = (dict(inspect.signature(getattr(kind, method)).parameters) for kind in both(path))
    added = {name for name in ours.keys() - theirs.keys() if ours[name].kind is inspect.Parameter.KEYWORD_ONLY}
    assert [name for name in ours if name not in added][: len(theirs)] == list(theirs)
    for name in theirs.keys() - {"tb_log_name"}:  # None here stands for the algorithm's name
        assert ours[name].default == theirs[name].default, name


@pytest.mark.parametrize("path", ALGORITHMS)
def test_runs_are_named_alike(path: str) -> None:
    theirs, ours = both(path)
    assert ours.run_name == inspect.signature(theirs.learn).parameters["tb_log_name"].default


@pytest.mark.parametrize(
    "path",
    [
        "stable_baselines3.common.callbacks.EvalCallback",
        "stable_baselines3.common.callbacks.CheckpointCallback",
        "stable_baselines3.common.callbacks.StopTrainingOnNoModelImprovement",
        "stable_baselines3.common.env_util.make_vec_env",
        "stable_baselines3.common.env_util.make_atari_env",
        "stable_baselines3.common.evaluation.evaluate_policy",
        "stable_baselines3.common.monitor.Monitor",
        "stable_baselines3.common.vec_env.VecNormalize",
        "stable_baselines3.common.vec_env.VecFrameStack",
        "stable_baselines3.common.vec_env.VecVideoRecorder",
        "stable_baselines3.common.vec_env.SubprocVecEnv",
        "stable_baselines3.common.torch_layers.NatureCNN",
        "stable_baselines3.common.torch_layers.create_mlp",
        "stable_baselines3.common.policies.ActorCriticPolicy",
        "stable_baselines3.common.buffers.RolloutBuffer",
        "stable_baselines3.common.atari_wrappers.AtariWrapper",
        "stable_baselines3.common.logger.configure",
        "stable_baselines3.common.results_plotter.plot_results",
        "stable_baselines3.common.running_mean_std.RunningMeanStd",
        "stable_baselines3.common.utils.configure_logger",
        "stable_baselines3.common.utils.obs_as_tensor",
        "stable_baselines3.common.sb2_compat.rmsprop_tf_like.RMSpropTFLike",
        "sb3_contrib.common.wrappers.ActionMasker",
        "sb3_contrib.common.wrappers.TimeFeatureWrapper",
        "sb3_contrib.common.envs.InvalidActionEnvDiscrete",
        "sb3_contrib.common.envs.InvalidActionEnvMultiDiscrete",
        "sb3_contrib.common.envs.InvalidActionEnvMultiBinary",
        "sb3_contrib.common.maskable.callbacks.MaskableEvalCallback",
        "sb3_contrib.common.maskable.distributions.MaskableCategorical",
        "sb3_contrib.common.maskable.distributions.make_masked_proba_distribution",
        "sb3_contrib.common.maskable.evaluation.evaluate_policy",
        "sb3_contrib.common.maskable.utils.get_action_masks",
        "sb3_contrib.common.maskable.utils.is_masking_supported",
        "stable_baselines3.common.policies.ActorCriticCnnPolicy",
        "stable_baselines3.common.policies.MultiInputActorCriticPolicy",
        "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy",
        "sb3_contrib.common.recurrent.policies.RecurrentActorCriticCnnPolicy",
        "sb3_contrib.common.recurrent.policies.RecurrentMultiInputActorCriticPolicy",
        "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy",
        "sb3_contrib.common.maskable.policies.MaskableActorCriticCnnPolicy",
        "sb3_contrib.common.maskable.policies.MaskableMultiInputActorCriticPolicy",
        "sb3_contrib.common.recurrent.buffers.RecurrentRolloutBuffer",
    ],
)
def test_callables_take_the_same_arguments(path: str) -> None:
    """Same names in the same order with the same defaults, by place or by name alike; more may follow."""
    things = both(path)
    theirs, ours = (inspect.signature(thing).parameters for thing in things)
    assert list(ours)[: len(theirs)] == list(theirs)
    for argument, parameter in theirs.items():
        assert ours[argument].kind is parameter.kind, argument
        default = parameter.default
        if default is inspect.Parameter.empty:
            continue  # what they demand, we may have a default for
        if inspect.isclass(default):  # each library names its own class
            found = ours[argument].default or things[1].usual_features_extractor  # which None stands for
            assert found.__name__ == default.__name__
        else:
            assert ours[argument].default == default, argument


OFF_POLICY = {
    "proximo.sb3": ["SAC", "DQN", "TD3", "DDPG", "HerReplayBuffer"],
    "proximo.sb3_contrib": ["ARS", "CrossQ", "QRDQN", "TQC"],
    **{ours_of(module): sorted(names) for module, names in HANDED_OUT.items()},
}


@pytest.mark.parametrize("module", OFF_POLICY)
def test_off_policy_names_are_the_real_ones(module: str) -> None:
    theirs = module.replace("proximo.sb3_contrib", "sb3_contrib").replace("proximo.sb3", "stable_baselines3")
    for name in OFF_POLICY[module]:
        found: dict[str, typing.Any] = {}
        exec(f"from {module} import {name}", found)
        assert found[name] is getattr(importlib.import_module(theirs), name)


PASSED_ON = ["common.policies", "common.buffers", "common.callbacks", "common.on_policy_algorithm", "common.base_class"]
PASSED_ON += ["ppo.ppo", "a2c.a2c"]
NOT_PASSED_ON = {  # reading and writing pickles; off-policy
    *("load_from_zip_file", "save_to_zip_file", "recursive_getattr", "recursive_setattr"),
    *("ActionNoise", "DictReplayBufferSamples", "ReplayBufferSamples"),
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_names_that_a_module_has_from_others_are_there_too(name: str) -> None:
    """Scripts take BaseFeaturesExtractor from ``common.policies``, say, which only imports it."""
    theirs = vars(importlib.import_module(f"stable_baselines3.{name}"))
    passed_on = {
        each
        for each, value in theirs.items()
        if each[0] != "_" and getattr(value, "__module__", "").startswith("stable_baselines3.") and callable(value)
    }
    ours = importlib.import_module(f"proximo.sb3.{name}")
    wanted = {each for each in passed_on - NOT_PASSED_ON if not isinstance(theirs[each], typing.TypeVar)}
    assert {each for each in wanted if not hasattr(ours, each)} == set()


@pytest.mark.parametrize("library", PACKAGES)
def test_importing_the_package_is_enough_to_name_its_modules(library: str) -> None:
    """``import stable_baselines3`` makes them attributes, ``stable_baselines3.common.vec_env.DummyVecEnv``, say."""
    listing = f"import sys, {library}\nprint(*(name for name in sys.modules if name.startswith('{library}.')))"
    paths = [path.removeprefix(f"{library}.") for path in printed(listing).split()]
    assert len(paths) > 30
    reaching = f"import {PACKAGES[library]} as package\nfrom operator import attrgetter\nfor path in {paths}:\n"
    assert printed(reaching + "    attrgetter(path)(package)\nprint(hasattr(package, 'nothing'))") == "False\n"


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", sorted(ABSENT_MODULES))
def test_modules_that_are_not_mirrored_are_the_real_ones(name: str) -> None:
    ours, theirs = importlib.import_module(ours_of(name)), importlib.import_module(name)
    assert {each: getattr(ours, each) for each in public_names(theirs)} == {
        each: getattr(theirs, each) for each in public_names(theirs)
    }


def without_the_libraries(script: str) -> str:
    """What a script prints where neither library is installed."""
    absent = (
        "import sys\nclass Absent:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] in ('stable_baselines3', 'sb3_contrib'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    done = subprocess.run([sys.executable, "-c", absent + script], capture_output=True, text=True, check=True)
    return done.stdout


def test_without_the_libraries_absent_names_say_why() -> None:
    attempts = [f"from {module} import {name}" for module, names in OFF_POLICY.items() for name in names]
    attempts += [f"import {ours_of(name)}" for name in ABSENT_MODULES]
    script = (
        "import proximo.sb3, proximo.sb3_contrib\n"
        f"for attempt in {attempts}:\n"
        "    try:\n        exec(attempt)\n"
        "    except ImportError as error:\n        print(error)\n"
        "    else:\n        print(attempt, 'worked')\n"
        "print(hasattr(proximo.sb3, 'SAC'), hasattr(proximo.sb3_contrib, 'TQC'), getattr(proximo.sb3, 'DQN', None))"
    )
    *answers, last = without_the_libraries(script).splitlines()
    assert last == "False False None"
    assert len(answers) == len(attempts)
    for attempt, answer in zip(attempts, answers, strict=True):
        library = "sb3-contrib" if "sb3_contrib" in attempt else "stable-baselines3"
        assert "Proximo, an on-policy library, leaves it to" in answer, attempt
        assert answer.endswith(f"which is not installed: pip install {library}")


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [("agent", "DQN", "keep rllte for its off-policy"), ("env", "make_dmc_env", "give make_rllte_env an id")],
)
def test_absent_names_of_rllte_say_why(module: str, name: str, words: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not in proximo.rllte.{module}.*{words}"):
        exec(f"from proximo.rllte.{module} import {name}")
    assert not hasattr(importlib.import_module(f"proximo.rllte.{module}"), name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("xploit.learner", "SACLearner"),
        ("xploit.storage", "VanillaReplayStorage"),
        ("xplore.distribution", "OrnsteinUhlenbeckNoise"),
        ("common.engine", "OffPolicyTrainer"),
        ("env", "make_dmc_env"),
    ],
)
def test_absent_names_of_hsuanwu_say_why(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not in proximo.hsuanwu.{module}; .*keep Hsuanwu for"):
        exec(f"from proximo.hsuanwu.{module} import {name}")
    found = importlib.import_module(f"proximo.hsuanwu.{module}")
    assert not hasattr(found, name)
    with pytest.raises(ImportError, match="cannot import name 'Misspelt'"):
        exec(f"from proximo.hsuanwu.{module} import Misspelt")


def test_misspelt_module_is_an_ordinary_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'proximo\.sb3\.common\.callback'$"):
        importlib.import_module("proximo.sb3.common.callback")


def test_misspelt_name_is_an_ordinary_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'PPPO'"):
        exec("from proximo.sb3 import PPPO")
    assert not hasattr(proximo.sb3, "PPPO")
    assert not hasattr(proximo.sb3_contrib, "MaskedPPO")


def test_version_is_the_mirrored_one() -> None:
    """Scripts compare it to know what they may call."""
    assert proximo.sb3.__version__ == stable_baselines3.__version__
    assert proximo.sb3_contrib.__version__ == sb3_contrib.__version__


def test_system_info_names_versions(capsys: pytest.CaptureFixture[str]) -> None:
    info, text = proximo.sb3.get_system_info()
    assert capsys.readouterr().out.strip() == text.strip()
    theirs = stable_baselines3.get_system_info(print_info=False)[0]
    assert {name: info[name] for name in theirs} == theirs
    assert {"OS", "Python", "Proximo", "PyTorch", "Numpy", "Gymnasium"} <= info.keys()
    assert f"- PyTorch: {info['PyTorch']}\n" in text
