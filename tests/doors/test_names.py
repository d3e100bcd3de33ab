"""Every public name of Stable-Baselines3's on-policy modules is there, or its absence is explained."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from types import ModuleType

import pytest
import stable_baselines3
from stable_baselines3 import PPO as OraclePPO

import proximo.sb3
from proximo.sb3 import PPO

MODULES = sorted(
    module.name.removeprefix("proximo.sb3.") for module in pkgutil.walk_packages(proximo.sb3.__path__, "proximo.sb3.")
)

ABSENT_MODULES = {
    "a2c": "comes with A2C",
    "dqn": "off-policy",
    "ddpg": "off-policy",
    "her": "off-policy",
    "sac": "off-policy",
    "td3": "off-policy",
    "common.noise": "action noise of off-policy algorithms",
    "common.off_policy_algorithm": "off-policy",
    "common.save_util": "reads and writes pickles; model files are Proximo's own",
    "common.sb2_compat": "RMSpropTFLike comes with A2C",
}

ABSENT_NAMES = {
    "common.buffers": {"ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer"},  # off-policy
    "common.policies": {"ContinuousCritic"},  # off-policy
    "common.type_aliases": {  # off-policy
        "ReplayBufferSamples",
        "DictReplayBufferSamples",
        "RolloutReturn",
        "TrainFreq",
        "TrainFrequencyUnit",
    },
    "common.utils": {"should_collect_more_steps"},  # off-policy
}


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


def test_every_module_is_mirrored_or_explained() -> None:
    theirs = {
        module.name.removeprefix("stable_baselines3.")
        for module in pkgutil.walk_packages(stable_baselines3.__path__, "stable_baselines3.")
    }
    explained = {name for name in theirs if any(name == gone or name.startswith(gone + ".") for gone in ABSENT_MODULES)}
    assert theirs - explained == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_mirrored_or_explained(name: str) -> None:
    door = importlib.import_module(f"proximo.sb3.{name}")
    theirs = public_names(importlib.import_module(f"stable_baselines3.{name}"))
    missing = {each for each in theirs if not hasattr(door, each)}
    assert missing == ABSENT_NAMES.get(name, set())


@pytest.mark.parametrize("name", MODULES)
def test_the_door_is_thin(name: str) -> None:
    """A door module defines no function and no class: it names those of the house."""
    door = importlib.import_module(f"proximo.sb3.{name}")
    implemented = [
        key
        for key, value in vars(door).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == door.__name__
    ]
    assert implemented == []


def test_constructor_has_the_same_arguments_and_defaults() -> None:
    theirs = inspect.signature(OraclePPO.__init__).parameters
    ours = inspect.signature(PPO.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    assert {name: ours[name].default for name in theirs} == {name: theirs[name].default for name in theirs}


@pytest.mark.parametrize("method", ["learn", "predict", "save", "load", "set_parameters", "set_env", "set_logger"])
def test_methods_have_the_same_arguments_and_defaults(method: str) -> None:
    theirs = inspect.signature(getattr(OraclePPO, method)).parameters
    ours = inspect.signature(getattr(PPO, method)).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    assert {name: ours[name].default for name in theirs} == {name: theirs[name].default for name in theirs}


@pytest.mark.parametrize(
    "path",
    [
        "common.callbacks.EvalCallback",
        "common.callbacks.CheckpointCallback",
        "common.callbacks.StopTrainingOnNoModelImprovement",
        "common.env_util.make_vec_env",
        "common.env_util.make_atari_env",
        "common.evaluation.evaluate_policy",
        "common.monitor.Monitor",
        "common.vec_env.VecNormalize",
        "common.vec_env.VecFrameStack",
        "common.vec_env.VecVideoRecorder",
        "common.vec_env.SubprocVecEnv",
        "common.torch_layers.NatureCNN",
        "common.torch_layers.create_mlp",
        "common.policies.ActorCriticPolicy",
        "common.buffers.RolloutBuffer",
        "common.atari_wrappers.AtariWrapper",
        "common.logger.configure",
        "common.results_plotter.plot_results",
        "common.running_mean_std.RunningMeanStd",
        "common.utils.configure_logger",
        "common.utils.obs_as_tensor",
    ],
)
def test_callables_take_the_same_arguments(path: str) -> None:
    """Same names in the same order with the same defaults; more may follow."""
    module, _, name = path.rpartition(".")
    theirs = inspect.signature(getattr(importlib.import_module(f"stable_baselines3.{module}"), name)).parameters
    ours = inspect.signature(getattr(importlib.import_module(f"proximo.sb3.{module}"), name)).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for argument, parameter in theirs.items():
        default = parameter.default
        if default is inspect.Parameter.empty:
            continue  # what they demand, we may have a default for
        if inspect.isclass(default):  # each library names its own class
            assert ours[argument].default.__name__ == default.__name__
        else:
            assert ours[argument].default == default, argument


@pytest.mark.parametrize("name", ["SAC", "DQN", "TD3", "DDPG", "HerReplayBuffer", "A2C"])
def test_absent_algorithms_say_why(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not in proximo.sb3: Proximo is an on-policy library.*PPO"):
        exec(f"from proximo.sb3 import {name}")


def test_misspelt_name_is_an_ordinary_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'PPPO'"):
        exec("from proximo.sb3 import PPPO")
    assert not hasattr(proximo.sb3, "PPPO")


def test_version_is_the_mirrored_one() -> None:
    """Scripts compare it to know what they may call."""
    assert proximo.sb3.__version__ == stable_baselines3.__version__


def test_system_info_names_versions(capsys: pytest.CaptureFixture[str]) -> None:
    info, text = proximo.sb3.get_system_info()
    assert capsys.readouterr().out.strip() == text.strip()
    assert {"OS", "Python", "Proximo", "PyTorch", "Numpy", "Gymnasium"} <= info.keys()
    assert f"- PyTorch: {info['PyTorch']}\n" in text
