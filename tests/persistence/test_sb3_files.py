"""Models move between Stable-Baselines3 and Proximo by file: same actions, same optimiser, nothing unpickled."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_cases import BOX, BY_NAME, CASES, SLOW, VECTOR, Case, RandomEnv
from torch import nn

import proximo
from proximo.errors import ModelFileError
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule
from proximo.networks.encoders import FlattenExtractor
from proximo.persistence.sb3_files import write_foreign

NAMES = [pytest.param(case.name, marks=[pytest.mark.slow] * (case.name in SLOW)) for case in CASES]
WRITTEN = [name for name in NAMES if name.values[0] != "function as learning rate"]


def assert_same_behaviour(case: Case, first: Any, second: Any) -> None:
    observation = case.observation()
    actions, state = first.predict(observation, deterministic=True)
    others, other_state = second.predict(observation, deterministic=True)
    np.testing.assert_allclose(others, actions, atol=1e-6, rtol=0)
    if state is not None:
        np.testing.assert_allclose(other_state, state, atol=1e-5, rtol=0)
        assert not np.array_equal(first.predict(observation, state, deterministic=True)[1], state)
    for name, weight in first.policy.state_dict().items():
        assert torch.equal(second.policy.state_dict()[name], weight), name


def optimizer_state(model: Any) -> dict[str, dict[str, torch.Tensor]]:
    """The optimiser's tensors by the names of the parameters."""
    names = {id(parameter): name for name, parameter in model.policy.named_parameters()}
    return {
        names[id(parameter)]: {key: torch.as_tensor(value, dtype=torch.float32) for key, value in state.items()}
        for parameter, state in model.policy.optimizer.state.items()
    }


def assert_same_optimizer(first: Any, second: Any) -> None:
    mine, other = optimizer_state(first), optimizer_state(second)
    for name in mine.keys() ^ other.keys():  # never stepped: only our flat memory has a place for it, of zeros
        state = (mine if name in mine else other)[name]
        assert all(not value.any() for value in state.values()), name
    for name, state in ((name, mine[name]) for name in mine.keys() & other.keys()):
        for key, value in state.items():
            assert torch.equal(other[name][key], value), (name, key)
    group, other_group = first.policy.optimizer.param_groups[0], second.policy.optimizer.param_groups[0]
    for key in ("lr", "eps", "betas", "alpha", "weight_decay"):
        assert other_group.get(key) == group.get(key), key


def one_step(model: Any) -> torch.Tensor:
    """All weights after one step of the optimiser along a fixed gradient."""
    for parameter in model.policy.parameters():
        parameter.grad = torch.full_like(parameter, 0.125)
    model.policy.optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_theirs_predicts_and_trains_on_here(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    theirs = case.make(case.theirs)
    theirs.save(tmp_path / "model.zip")
    ours = case.ours.load(tmp_path / "model.zip", env=case.env(), custom_objects=case.custom_objects, device="cpu")
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert_same_behaviour(case, theirs, ours)
    assert_same_optimizer(theirs, ours)
    assert (ours.num_timesteps, ours._n_updates, ours.seed) == (theirs.num_timesteps, theirs._n_updates, 3)
    hyperparameters = set(case.ours.config_class.__dataclass_fields__) & set(vars(theirs))
    for key in hyperparameters - {"learning_rate", "clip_range", "clip_range_vf"}:
        assert getattr(ours, key) == getattr(theirs, key), key
    before = ours.policy.parameters_to_vector()
    ours.learn(32, reset_num_timesteps=False)
    assert ours.num_timesteps == theirs.num_timesteps + (32 if case.algorithm != "A2C" else 35)
    after = ours.policy.parameters_to_vector()
    assert np.isfinite(after).all()
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_model_of_ours_loads_there(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    ours = case.make(case.ours) if name not in OWN_CLASSES else with_own_classes(case)
    loader = write_foreign(ours, tmp_path / "model.zip")
    assert loader.rpartition(".")[2] == case.algorithm
    theirs = case.theirs.load(tmp_path / "model.zip", env=case.env(), device="cpu")
    assert_same_behaviour(case, ours, theirs)
    assert_same_optimizer(ours, theirs)
    assert theirs.num_timesteps == ours.num_timesteps
    theirs.learn(16, reset_num_timesteps=False)
    assert np.isfinite(theirs.policy.parameters_to_vector()).all()


OWN_CLASSES = ("schedules", "A2C as in TensorFlow")


def with_own_classes(case: Case) -> Any:
    """The case with the library's schedules and optimiser in the place of the other library's."""
    from dataclasses import replace

    from proximo.networks.optimizers import RMSpropTFLike

    if case.name == "schedules":
        options: dict[str, Any] = {
            "learning_rate": LinearSchedule(1e-3, 1e-4, 0.5),
            "clip_range": LinearSchedule(0.2, 0.1, 1.0),
        }
    else:
        options = {"policy_kwargs": {**case.options["policy_kwargs"], "optimizer_class": RMSpropTFLike}}
    return replace(case, options=options).make(case.ours)


@pytest.mark.parametrize("name", ["box", "A2C", "A2C as in TensorFlow", "memory", "two extractors"])
def test_the_next_step_of_the_optimiser_is_the_same(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    theirs = case.make(case.theirs)
    theirs.save(tmp_path / "model.zip")
    ours = case.ours.load(tmp_path / "model.zip", device="cpu")
    torch.testing.assert_close(one_step(ours), one_step(theirs), atol=1e-7, rtol=1e-6)


def test_schedules_are_kept(tmp_path: Path) -> None:
    case = BY_NAME["schedules"]
    case.make(case.theirs).save(tmp_path / "model.zip")
    ours = proximo.PPO.load(tmp_path / "model.zip")
    assert ours.learning_rate == LinearSchedule(1e-3, 1e-4, 0.5)
    assert ours.clip_range == FloatSchedule(LinearSchedule(0.2, 0.1, 1.0))


def test_set_parameters_takes_their_file(tmp_path: Path) -> None:
    case = BY_NAME["box"]
    theirs = case.make(case.theirs)
    theirs.save(tmp_path / "model.zip")
    ours = proximo.PPO("MlpPolicy", case.env(), device="cpu")
    ours.set_parameters(tmp_path / "model.zip")
    assert_same_behaviour(case, theirs, ours)


# ----------------------------------------------------------------------------------------------- changed by hand


def edited(source: Path, target: Path, **fields: Any) -> Path:
    """A copy of a file with other values in ``data`` (None takes a field out)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                data = {**json.loads(content), **fields}
                content = json.dumps({key: value for key, value in data.items() if value is not None}).encode()
            new.writestr(name, content)
    return target


def pickled(value: Any) -> dict[str, str]:
    return {":type:": str(type(value)), ":serialized:": base64.b64encode(cloudpickle.dumps(value)).decode()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sb3") / "model.zip"
    BY_NAME["box"].make(stable_baselines3.PPO).save(path)
    return path


def constant_fn(val: float) -> Any:
    def func(_: float) -> float:
        return val

    return func


def get_linear_fn(start: float, end: float, end_fraction: float) -> Any:
    def func(progress_remaining: float) -> float:
        return start if progress_remaining > end_fraction else end

    return func


def get_schedule_fn(value_schedule: Any) -> Any:
    return lambda progress_remaining: float(value_schedule(progress_remaining))


def as_theirs(function: Any) -> Any:
    """Make a function look as if their module had it: cloudpickle writes such a one by value."""
    function.__module__ = "stable_baselines3.common.utils"
    return function


def test_schedules_of_versions_before_2_7_are_understood_without_their_code(saved: Path, tmp_path: Path) -> None:
    path = edited(
        saved,
        tmp_path / "old.zip",
        clip_range=pickled(as_theirs(constant_fn(0.15))),
        clip_range_vf=pickled(as_theirs(get_schedule_fn(as_theirs(constant_fn(0.4))))),
        learning_rate=pickled(as_theirs(get_linear_fn(1e-3, 1e-5, 0.5))),
    )
    model = proximo.PPO.load(path)
    assert model.clip_range == FloatSchedule(ConstantSchedule(0.15))
    assert model.clip_range_vf == FloatSchedule(ConstantSchedule(0.4))
    assert model.learning_rate == LinearSchedule(1e-3, 1e-5, 0.5)


def test_old_list_form_of_net_arch(tmp_path: Path) -> None:
    case = BY_NAME["layers"]
    theirs = case.make(stable_baselines3.PPO)
    theirs.save(tmp_path / "new.zip")
    kwargs = {"net_arch": [theirs.policy_kwargs["net_arch"]], "activation_fn": nn.ELU}
    path = edited(tmp_path / "new.zip", tmp_path / "old.zip", policy_kwargs=pickled(kwargs))
    assert_same_behaviour(case, theirs, proximo.PPO.load(path))


class OwnExtractor(FlattenExtractor):
    """A class of the user's."""


def test_what_is_code_is_asked_for_by_name(saved: Path, tmp_path: Path) -> None:
    path = edited(
        saved,
        tmp_path / "code.zip",
        learning_rate=pickled(lambda progress: progress),
        policy_kwargs=pickled({"net_arch": [64, 64], "features_extractor_class": OwnExtractor}),
    )
    with pytest.raises(ModelFileError, match=r"learning_rate \(the function .*policy_kwargs\.features_extractor_class"):
        proximo.PPO.load(path)
    with pytest.raises(ModelFileError, match="features_extractor_class"):
        proximo.PPO.load(path, custom_objects={"learning_rate": 1e-3})
    supplied = {"learning_rate": 1e-3, "policy_kwargs.features_extractor_class": OwnExtractor}
    model = proximo.PPO.load(path, custom_objects=supplied)
    assert isinstance(model.policy.features_extractor, OwnExtractor)
    assert model.learning_rate == 1e-3


def test_missing_fields_and_wrong_algorithms_are_named(saved: Path, tmp_path: Path) -> None:
    path = edited(saved, tmp_path / "old.zip", observation_space=None)
    with pytest.raises(ModelFileError, match="lacks observation_space"):
        proximo.PPO.load(path)
    assert proximo.PPO.load(path, custom_objects={"observation_space": VECTOR}).action_space == BOX
    with pytest.raises(ModelFileError, match=r"PPO trained; load it with PPO\.load, not A2C\.load"):
        proximo.A2C.load(saved)
    stable_baselines3.DQN("MlpPolicy", RandomEnv(VECTOR, spaces.Discrete(2))).save(tmp_path / "dqn.zip")
    with pytest.raises(ModelFileError, match="off-policy"):
        proximo.PPO.load(tmp_path / "dqn.zip")
    stable_baselines3.SAC("MlpPolicy", RandomEnv(VECTOR, BOX), buffer_size=10).save(tmp_path / "sac.zip")
    with pytest.raises(ModelFileError, match="off-policy"):
        proximo.PPO.load(tmp_path / "sac.zip")


def test_a_network_larger_than_its_weights_is_refused_before_it_is_built(saved: Path, tmp_path: Path) -> None:
    for arch in ([2**30, 2**30], [1] * 100_000, {"pi": [64, 2**40], "vf": [64, 64]}):
        path = edited(saved, tmp_path / "large.zip", policy_kwargs={"net_arch": arch})
        with pytest.raises(ModelFileError, match="describes"):
            proximo.PPO.load(path)


def test_what_the_other_library_lacks_is_named(tmp_path: Path) -> None:
    box = BY_NAME["box"]
    gru = proximo.PPO("MlpGruPolicy", box.env(), n_steps=16, batch_size=16)
    with pytest.raises(ValueError, match="GruActorCriticPolicy, which Stable-Baselines3 does not have"):
        write_foreign(gru, tmp_path / "model.zip")
    hybrid = proximo.PPO("MlpPolicy", RandomEnv(VECTOR, spaces.Dict({"a": BOX, "b": spaces.Discrete(2)})))
    with pytest.raises(ValueError, match="no actions of Dict spaces"):
        write_foreign(hybrid, tmp_path / "model.zip")
    function = proximo.PPO("MlpPolicy", box.env(), learning_rate=lambda progress: progress)
    with pytest.raises(ValueError, match="learning_rate is a function of your own"):
        write_foreign(function, tmp_path / "model.zip")
    assert not list(tmp_path.iterdir())
