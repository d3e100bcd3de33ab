"""Bad input is refused before training starts, with what came, what was expected and what to do."""

from __future__ import annotations

import math
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from proximo import A2C, PPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.errors import MissingExtraError, ModelFileError, NonFiniteError

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
CHOICE = spaces.Discrete(2)


class SpacesEnv(gym.Env[Any, Any]):
    def __init__(self, observation_space: spaces.Space[Any] = VECTOR, action_space: spaces.Space[Any] = CHOICE) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, False, False, {}


def ppo(policy: Any = "MlpPolicy", env: Any = None, **arguments: Any) -> PPO:
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "seed": 0}
    return PPO(policy, SpacesEnv() if env is None else env, **(settings | arguments))


def recurrent(**arguments: Any) -> RecurrentPPO:
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"lstm_hidden_size": 4}}
    return RecurrentPPO("MlpLstmPolicy", SpacesEnv(), **(settings | arguments))


INFINITE = spaces.Box(-math.inf, math.inf, (2,), np.float32)
TUPLE = spaces.Tuple((CHOICE, CHOICE))
DICT = spaces.Dict({"a": VECTOR})
TEXTUAL = spaces.Tuple((CHOICE, spaces.Text(3)))
GRID = spaces.MultiDiscrete([[2, 3], [3, 2]])
NESTED = spaces.Dict({"a": spaces.Dict({"b": VECTOR})})
SMALL_IMAGE = spaces.Box(0, 255, (3, 20, 20), np.uint8)

# what is done, the error, and pieces its message must hold in this order: what came … expected … what to do
CONSTRUCTOR: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "unknown policy": (lambda: ppo("MlpPolicyy"), ValueError, ["'MlpPolicyy'", "did you mean 'MlpPolicy'"]),
    "policy of no kind": (lambda: ppo(nn.Linear), TypeError, ["Linear", "MlpPolicy", "ActorCriticPolicy"]),
    "unknown environment": (lambda: ppo(env="CartPol-v1"), ValueError, ["'CartPol-v1'", "did you mean 'CartPole-v1'"]),
    "unknown version": (lambda: ppo(env="CartPole-v7"), ValueError, ["'CartPole-v7'", "'CartPole-v1'"]),
    "no environment at all": (lambda: ppo(env=3), TypeError, ["expected an environment id", "got 3"]),
    "text in actions": (
        lambda: ppo(env=SpacesEnv(VECTOR, TEXTUAL)),
        NotImplementedError,
        ["Text", "use Box, Discrete"],
    ),
    "infinite actions": (
        lambda: ppo(env=SpacesEnv(VECTOR, INFINITE)),
        ValueError,
        ["inf", "finite", "TransformAction"],
    ),
    "2-D bits": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.MultiBinary([2, 2]))),
        NotImplementedError,
        ["MultiBinary", "flatten"],
    ),
    "2-D choices": (
        lambda: ppo(env=SpacesEnv(VECTOR, GRID)),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) actions", "flatten", "MultiDiscrete([2, 3, 3, 2])"],
    ),
    "2-D choices of masked actions": (
        lambda: MaskablePPO("MlpPolicy", SpacesEnv(VECTOR, GRID)),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) actions", "flatten"],
    ),
    "2-D choices in a Dict": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Dict(a=GRID, b=CHOICE))),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) actions", "flatten"],
    ),
    "2-D choices in a Tuple": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Tuple([CHOICE, GRID]))),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) actions", "flatten"],
    ),
    "2-D choices as observation": (
        lambda: ppo(env=SpacesEnv(GRID)),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) observations", "flatten", "MultiDiscrete([2, 3, 3, 2])"],
    ),
    "2-D choices in Dict observations": (
        lambda: ppo("MultiInputPolicy", SpacesEnv(spaces.Dict(a=spaces.Tuple([GRID]), b=VECTOR))),
        NotImplementedError,
        ["MultiDiscrete([[2, 3], [3, 2]]) observations", "flatten"],
    ),
    "no actions": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Dict({}))),
        ValueError,
        ["action space Dict()", "empty", "at least one part"],
    ),
    "no actions in a Tuple": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Tuple(()))),
        ValueError,
        ["action space Tuple()", "empty", "at least one part"],
    ),
    "no actions in a part": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Tuple([CHOICE, spaces.Dict(a=spaces.Dict({}))]))),
        ValueError,
        ["action space Dict()", "empty", "leave it out"],
    ),
    "no observations": (
        lambda: ppo("MultiInputPolicy", SpacesEnv(spaces.Dict({}))),
        ValueError,
        ["observation space Dict()", "empty", "at least one part"],
    ),
    "tuple for MlpPolicy": (lambda: ppo(env=SpacesEnv(TUPLE)), ValueError, ["Dict('0'", "MultiInputPolicy"]),
    "nested for MlpPolicy": (lambda: ppo(env=SpacesEnv(NESTED)), ValueError, ["/", "MultiInputPolicy"]),
    "dict for MlpPolicy": (lambda: ppo(env=SpacesEnv(DICT)), ValueError, ["Dict", "MultiInputPolicy"]),
    "vector for MultiInputPolicy": (lambda: ppo("MultiInputPolicy"), ValueError, ["Box", "MlpPolicy"]),
    "vector for CnnPolicy": (lambda: ppo("CnnPolicy"), ValueError, ["images", "Box(-1.0, 1.0, (3,)", "MlpPolicy"]),
    "float image": (
        lambda: ppo("CnnPolicy", SpacesEnv(spaces.Box(0.0, 1.0, (3, 40, 40), np.float32))),
        ValueError,
        ["uint8", "normalize_images"],
    ),
    "tiny image": (lambda: ppo("CnnPolicy", SpacesEnv(SMALL_IMAGE)), ValueError, ["(3, 20, 20)", "36 x 36"]),
    "batch_size 1": (lambda: ppo(batch_size=1), ValueError, ["batch_size is 1", "at least 2", "normalize_advantage"]),
    "batch_size 0": (lambda: ppo(batch_size=0), ValueError, ["batch_size is 0", "positive whole number"]),
    "one sample": (lambda: ppo(n_steps=1, batch_size=2), ValueError, ["n_steps * n_envs is 1", "more than one"]),
    "fractional n_steps": (lambda: ppo(n_steps=8.0), ValueError, ["n_steps is 8.0", "whole number"]),
    "negative n_epochs": (lambda: ppo(n_epochs=-1), ValueError, ["n_epochs is -1", "positive"]),
    "negative learning rate": (lambda: ppo(learning_rate=-1e-3), ValueError, ["learning_rate", "-0.001", "at least 0"]),
    "infinite learning rate": (lambda: ppo(learning_rate=math.inf), ValueError, ["learning_rate", "inf", "finite"]),
    "NaN learning rate": (lambda: ppo(learning_rate=math.nan), ValueError, ["learning_rate", "nan", "finite"]),
    "schedule that turns negative": (
        lambda: ppo(learning_rate=lambda progress: progress - 0.5),
        ValueError,
        ["learning_rate", "-0.5", "progress_remaining=0", "at least 0"],
    ),
    "learning rate as text": (lambda: ppo(learning_rate="3e-4"), TypeError, ["learning_rate", "'3e-4'", "number"]),
    "negative clip range": (lambda: ppo(clip_range=-0.2), ValueError, ["clip_range", "-0.2", "at least 0"]),
    "zero value clip range": (lambda: ppo(clip_range_vf=0.0), ValueError, ["clip_range_vf is 0.0", "positive"]),
    "NaN clip range": (lambda: ppo(clip_range=math.nan), ValueError, ["clip_range", "nan"]),
    "negative value clip range": (lambda: ppo(clip_range_vf=-1.0), ValueError, ["clip_range_vf", "-1.0"]),
    "gamma above 1": (lambda: ppo(gamma=1.5), ValueError, ["gamma is 1.5", "0 to 1"]),
    "NaN gamma": (lambda: ppo(gamma=math.nan), ValueError, ["gamma is nan", "0 to 1"]),
    "negative lambda": (lambda: ppo(gae_lambda=-0.1), ValueError, ["gae_lambda is -0.1", "0 to 1"]),
    "NaN entropy weight": (lambda: ppo(ent_coef=math.nan), ValueError, ["ent_coef is nan", "finite"]),
    "zero gradient norm": (lambda: ppo(max_grad_norm=0.0), ValueError, ["max_grad_norm is 0.0", "positive"]),
    "negative KL": (lambda: ppo(target_kl=-1.0), ValueError, ["target_kl is -1.0", "positive"]),
    "part of a step": (lambda: ppo(sde_sample_freq=2.5), TypeError, ["sde_sample_freq is 2.5", "number of steps"]),
    "state-dependent exploration": (lambda: ppo(use_sde=True), ValueError, ["use_sde", "Box", "Discrete(2)"]),
    "squashed output": (
        lambda: ppo(policy_kwargs={"squash_output": True}),
        ValueError,
        ["squash_output", "use_sde"],
    ),
    "noise for hybrid actions": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Dict(a=CHOICE, b=VECTOR)), use_sde=True),
        ValueError,
        ["use_sde", "Box", "Dict("],
    ),
    "noise for A2C with switches": (
        lambda: A2C("MlpPolicy", SpacesEnv(VECTOR, spaces.MultiBinary(2)), use_sde=True),
        ValueError,
        ["use_sde", "Box", "MultiBinary(2)"],
    ),
    "infinite part of hybrid actions": (
        lambda: ppo(env=SpacesEnv(VECTOR, spaces.Tuple([CHOICE, INFINITE]))),
        ValueError,
        ["inf", "finite", "TransformAction"],
    ),
    "no sequence in a batch of one": (
        lambda: recurrent(n_steps=128, batch_size=1, normalize_advantage=False),
        ValueError,
        ["sequences", "batch_size is 1", "2 or more"],
    ),
    "no sequence of one step": (
        lambda: A2C("MlpLstmPolicy", SpacesEnv(), n_steps=1),
        ValueError,
        ["sequences", "n_steps is 1", "2 or more"],
    ),
    "masks for continuous actions": (
        lambda: MaskablePPO("MlpPolicy", SpacesEnv(VECTOR, VECTOR)),
        ValueError,
        ["masks", "discrete", "Box("],
    ),
    "dict for MlpLstmPolicy": (
        lambda: ppo("MlpLstmPolicy", SpacesEnv(DICT)),
        ValueError,
        ["Dict", "'MultiInputLstmPolicy'"],
    ),
    "dict for MlpGruPolicy": (lambda: ppo("MlpGruPolicy", SpacesEnv(DICT)), ValueError, ["'MultiInputGruPolicy'"]),
    "dict for masked MlpPolicy": (
        lambda: MaskablePPO("MlpPolicy", SpacesEnv(DICT)),
        ValueError,
        ["Dict", "'MultiInputPolicy'"],
    ),
    "vector for CnnLstmPolicy": (
        lambda: ppo("CnnLstmPolicy"),
        ValueError,
        ["CnnLstmPolicy reads images", "Box(-1.0, 1.0, (3,)", "'MlpLstmPolicy'"],
    ),
    "vector for MultiInputLstmPolicy": (lambda: ppo("MultiInputLstmPolicy"), ValueError, ["Box", "MlpPolicy"]),
    "policy without memory": (
        lambda: RecurrentPPO("MlpPolicy", SpacesEnv()),
        ValueError,
        ["memory", "MlpPolicy", "MlpLstmPolicy", "or PPO"],
    ),
    "two memories": (
        lambda: recurrent(policy_kwargs={"shared_lstm": True}),
        ValueError,
        ["shared_lstm=True", "enable_critic_lstm=False"],
    ),
    "memory of another shape": (
        lambda: recurrent(policy_kwargs={"lstm_kwargs": {"proj_size": 8, "bidirectional": True}}),
        ValueError,
        ["lstm_kwargs has bidirectional, proj_size", "dropout"],
    ),
    "unknown argument of memory": (
        lambda: recurrent(policy_kwargs={"lstm_hiden_size": 4}),
        TypeError,
        ["lstm_hiden_size"],
    ),
    "fused for memory": (lambda: recurrent(backend="fused"), ValueError, ["fused", "backend='auto'"]),
    "zero RMSprop epsilon": (
        lambda: A2C("MlpPolicy", SpacesEnv(), rms_prop_eps=0.0),
        ValueError,
        ["rms_prop_eps is 0.0", "positive"],
    ),
    "unknown backend": (lambda: ppo(backend="jax"), ValueError, ["'jax'", "'auto', 'fused' or 'torch'"]),
    "fused for images": (
        lambda: ppo("CnnPolicy", SpacesEnv(spaces.Box(0, 255, (3, 40, 40), np.uint8)), backend="fused"),
        ValueError,
        ["fused", "NatureCNN", "backend='auto'"],
    ),
    "unknown policy argument": (
        lambda: ppo(policy_kwargs={"net_archh": [8]}),
        TypeError,
        ["net_archh"],
    ),
    "negative layer size": (
        lambda: ppo(policy_kwargs={"net_arch": [8, -1]}),
        ValueError,
        ["net_arch", "positive", "-1"],
    ),
    "foreign buffer class": (lambda: ppo(rollout_buffer_class=dict), TypeError, ["dict", "RolloutBuffer"]),
    "old gym environment": (lambda: ppo(env=[lambda: object()]), TypeError, ["gymnasium.Env", "object"]),
}


@pytest.mark.parametrize(("act", "error", "pieces"), CONSTRUCTOR.values(), ids=CONSTRUCTOR)
def test_constructor(act: Callable[[], Any], error: type[Exception], pieces: list[str]) -> None:
    with pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, pieces))):
        act()


OBSERVATIONS: dict[str, tuple[spaces.Space[Any], Any, list[str]]] = {
    "too long": (VECTOR, np.zeros(4), ["(4,)", "(3,)", "(n, 3)"]),
    "batch of too long": (VECTOR, np.zeros((2, 4)), ["(2, 4)", "(3,)"]),
    "too many axes": (VECTOR, np.zeros((2, 2, 3)), ["(2, 2, 3)", "(3,)"]),
    "number for vector": (VECTOR, 1.0, ["()", "(3,)"]),
    "tuple of gymnasium": (VECTOR, (np.zeros(3), {}), ["tuple (observation, info)", "obs, info = env.reset()"]),
    "dictionary for vector": (VECTOR, {"a": np.zeros(3)}, ["dictionary", "['a']", "Box"]),
    "vector for dictionary": (DICT, np.zeros(3), ["ndarray", "Dict", "dictionary"]),
    "missing key": (spaces.Dict({"a": VECTOR, "b": VECTOR}), {"a": np.zeros(3)}, ["lacks", "['b']"]),
    "bad part": (DICT, {"a": np.zeros(5)}, ["'a'", "(5,)", "(3,)"]),
    "batched and not": (
        spaces.Dict({"a": VECTOR, "b": VECTOR}),
        {"a": np.zeros(3), "b": np.zeros((2, 3))},
        ["batched"],
    ),
    "image of other size": (
        spaces.Box(0, 255, (3, 40, 40), np.uint8),
        np.zeros((3, 41, 40), np.uint8),
        ["(3, 41, 40)", "(3, 40, 40)"],
    ),
}


@pytest.mark.parametrize(("space", "observation", "pieces"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observation_of_wrong_shape(space: spaces.Space[Any], observation: Any, pieces: list[str]) -> None:
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    model = ppo(policy, SpacesEnv(space))
    with pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, pieces))):
        model.predict(observation)


STATES: dict[str, tuple[Any, list[str]]] = {
    "hidden alone": ((np.zeros((1, 1, 4)),), ["[(1, 1, 4)]", "expected [(1, 1, 4), (1, 1, 4)]"]),
    "other size": ((np.zeros((1, 1, 5)), np.zeros((1, 1, 5))), ["(1, 1, 5)", "expected [(1, 1, 4)", "predict()"]),
    "of another batch": ((np.zeros((1, 3, 4)), np.zeros((1, 3, 4))), ["(1, 3, 4)", "(1, 1, 4)", "None to start"]),
    "without layers": ((np.zeros((1, 4)), np.zeros((1, 4))), ["(1, 4)", "(1, 1, 4)"]),
}


@pytest.mark.parametrize(("state", "pieces"), STATES.values(), ids=STATES)
def test_state_of_wrong_shape(state: Any, pieces: list[str]) -> None:
    with pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, pieces))):
        recurrent().predict(np.zeros(3, np.float32), state)


def test_episode_starts_of_another_batch() -> None:
    with pytest.raises(ValueError, match=r"episode_start has 2 entries for 3 observations"):
        recurrent().predict(np.zeros((3, 3), np.float32), None, np.zeros(2, bool))


OTHER_SPACES = {
    "observations": (SpacesEnv(spaces.Box(-1.0, 1.0, (4,), np.float32)), ["observation spaces", "(3,)", "(4,)"]),
    "bounds": (SpacesEnv(spaces.Box(-2.0, 2.0, (3,), np.float32)), ["observation spaces", "-1.0", "-2.0"]),
    "actions": (SpacesEnv(VECTOR, spaces.Discrete(5)), ["action spaces", "Discrete(2)", "Discrete(5)"]),
}


@pytest.mark.parametrize(("env", "pieces"), OTHER_SPACES.values(), ids=OTHER_SPACES)
def test_environment_of_other_spaces(tmp_path: Path, env: gym.Env[Any, Any], pieces: list[str]) -> None:
    model = ppo()
    model.save(tmp_path / "model")
    message = ".*".join(map(re.escape, pieces))
    with pytest.raises(ValueError, match=message):
        model.set_env(env)
    with pytest.raises(ValueError, match=message):
        PPO.load(tmp_path / "model", env=env)
    assert isinstance(model.get_env().observation_space, spaces.Box)
    model.learn(8)  # the refused environment has not taken the place of the old one


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def fill_with_text(path: Path) -> None:
    path.write_text("this is no model")


def other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


def off_policy_model(path: Path) -> None:
    from stable_baselines3 import DQN

    DQN("MlpPolicy", "CartPole-v1", buffer_size=10).save(path)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, fill_with_text, other_zip, off_policy_model, Path.unlink])
def test_damaged_and_foreign_files(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.zip"
    ppo().save(path)
    damage(path)
    error = FileNotFoundError if damage is Path.unlink else ModelFileError
    with pytest.raises(error, match=r"model\.zip"):
        PPO.load(path)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    model = ppo(tensorboard_log=str(tmp_path))
    before = model.policy.action_net.weight.detach().clone()
    with pytest.raises(MissingExtraError, match=r"tensorboard.*pip install 'proximo\[tensorboard\]'"):
        model.learn(8)
    assert torch.equal(before, model.policy.action_net.weight)


def test_unwritable_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    model = ppo()
    with pytest.raises(OSError, match=r"cannot write .*choose another path"):
        model.save(blocked / "model")
    with pytest.raises(OSError, match="file"):
        ppo(tensorboard_log=str(blocked)).learn(8)


def test_short_last_minibatch_warns() -> None:
    with pytest.warns(UserWarning, match=r"batch_size 5 .*8 \* 1 = 8 samples.*truncated mini-batch of 3"):
        ppo(batch_size=5)


def test_callback_of_no_kind() -> None:
    with pytest.raises(TypeError, match="callback is 5"):
        ppo().learn(8, callback=5)


class Poisoned(SpacesEnv):
    """Gives NaN or infinity in one place, at step 5 of the second of three environments."""

    def __init__(self, place: str, value: float, sick: bool) -> None:
        super().__init__(VECTOR, spaces.Box(-1.0, 1.0, (2,), np.float32))
        self.place, self.value, self.sick, self.steps = place, value, sick, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        observation, reward = np.full(3, 0.5, np.float32), 1.0
        if self.sick and self.steps == 5:
            if self.place == "observation":
                observation[1] = self.value
            else:
                reward = self.value
        return observation, reward, False, False, {}


@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "MlpGruPolicy"])
@pytest.mark.parametrize(("place", "step"), [("observation", 5), ("reward", 4)])
def test_nan_under_memory(place: str, step: int, policy: str) -> None:
    factories = [lambda sick=sick: Poisoned(place, math.nan, sick) for sick in (False, True, False)]
    model = ppo(policy, factories, policy_kwargs={"lstm_hidden_size": 4})
    with pytest.raises(NonFiniteError, match=rf"{place} of environment 1 at step {step} of the rollout"):
        model.learn(24)
    assert all(torch.isfinite(weight).all() for weight in model.policy.state_dict().values())


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("place", "step"), [("observation", 5), ("reward", 4)])
def test_nan_from_the_environment(place: str, step: int, value: float, backend: str) -> None:
    """The step of the rollout and the environment are named, and the weights stay finite."""
    factories = [lambda sick=sick: Poisoned(place, value, sick) for sick in (False, True, False)]
    model = ppo(env=factories, n_steps=8, batch_size=8, backend=backend)
    before = {name: weight.clone() for name, weight in model.policy.state_dict().items()}
    with pytest.raises(NonFiniteError, match=rf"{place} of environment 1 at step {step} of the rollout"):
        model.learn(24)
    for name, weight in model.policy.state_dict().items():
        assert torch.equal(weight, before[name]), name


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("position", ["observation at the very end", "reward at the very end"])
def test_nan_in_the_last_step(position: str, backend: str) -> None:
    place = position.split()[0]
    factories = [lambda sick=sick: Poisoned(place, math.nan, sick) for sick in (False, True, False)]
    model = ppo(env=factories, n_steps=5, batch_size=5, backend=backend)
    with pytest.raises(NonFiniteError, match=f"{place} of environment 1"):
        model.learn(15)
    assert all(torch.isfinite(weight).all() for weight in model.policy.state_dict().values())


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_nan_in_the_loss_is_not_applied(backend: str) -> None:
    """Advantages that overflow give a loss that is no number: the step is not taken."""
    model = ppo(normalize_advantage=False, backend=backend)
    model.learn(8)
    before = {name: weight.clone() for name, weight in model.policy.state_dict().items()}
    moments = {
        index: {name: value.clone() for name, value in state.items()}
        for index, state in model.policy.optimizer.state_dict()["state"].items()
    }
    model.rollout_buffer.advantages[3] = math.nan
    with pytest.raises(NonFiniteError, match=r"minibatch 0 .*learning_rate"):
        model.train()
    for name, weight in model.policy.state_dict().items():
        assert torch.equal(weight, before[name]), name
    for index, state in model.policy.optimizer.state_dict()["state"].items():
        for name, value in state.items():
            assert torch.equal(value, moments[index][name]), name


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_exploding_weights_are_stopped(backend: str) -> None:
    """A learning rate far too high ends in an error, not in a file of NaN."""
    env = make_vec_env("Pendulum-v1", n_envs=2, seed=0)
    model = ppo(env=env, learning_rate=1e30, n_epochs=10, n_steps=32, batch_size=16, backend=backend)
    with pytest.raises(NonFiniteError):
        model.learn(640)
    assert all(torch.isfinite(weight).all() for weight in model.policy.state_dict().values())


def test_a_model_needs_an_environment() -> None:
    with pytest.raises(ValueError, match="env is None; give an id such as CartPole-v1"):
        PPO("MlpPolicy", None)


@pytest.mark.parametrize("steps", ["100", None, True])
def test_steps_are_a_number(steps: Any) -> None:
    with pytest.raises(TypeError, match="expected a number of steps"):
        ppo().learn(steps)


def test_the_advice_for_infinite_actions_can_be_followed() -> None:
    space = spaces.Box(-2.0, 3.0, (2,), np.float32)
    env = gym.wrappers.TransformAction(SpacesEnv(VECTOR, INFINITE), lambda action: action, space)
    assert ppo(env=env).action_space == space
