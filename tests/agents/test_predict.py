"""``predict`` for every observation and action space, one observation or many."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from family import FAMILY, Member, every_member
from proximo import A2C, PPO, RecurrentPPO
from proximo.errors import NonFiniteError

OBSERVATIONS: dict[str, tuple[str, spaces.Space[Any]]] = {
    "vector": ("MlpPolicy", spaces.Box(-1.0, 1.0, (3,), np.float32)),
    "double": ("MlpPolicy", spaces.Box(-1.0, 1.0, (3,), np.float64)),
    "matrix": ("MlpPolicy", spaces.Box(-1.0, 1.0, (2, 3), np.float32)),
    "discrete": ("MlpPolicy", spaces.Discrete(5)),
    "multidiscrete": ("MlpPolicy", spaces.MultiDiscrete([3, 2])),
    "multibinary": ("MlpPolicy", spaces.MultiBinary(4)),
    "image, channels last": ("CnnPolicy", spaces.Box(0, 255, (40, 36, 3), np.uint8)),
    "image, channels first": ("CnnPolicy", spaces.Box(0, 255, (3, 40, 36), np.uint8)),
    "dict": (
        "MultiInputPolicy",
        spaces.Dict(
            {
                "image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
                "vector": spaces.Box(-1.0, 1.0, (2,), np.float32),
                "choice": spaces.Discrete(3),
            }
        ),
    ),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-0.5, 0.25, (2,), np.float32),
    "matrix": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    "multidiscrete": spaces.MultiDiscrete([2, 3]),
    "multibinary": spaces.MultiBinary(3),
}


class SpacesEnv(gym.Env[Any, Any]):
    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (action, self.action_space)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps % 5 == 0, self.steps % 7 == 0, {}


def make_model(policy: str, observation: spaces.Space[Any], action: spaces.Space[Any], backend: str = "auto") -> PPO:
    return PPO(policy, SpacesEnv(observation, action), n_steps=12, batch_size=12, n_epochs=1, seed=0, backend=backend)


def stack(samples: list[Any]) -> Any:
    if isinstance(samples[0], dict):
        return {key: np.stack([sample[key] for sample in samples]) for key in samples[0]}
    return np.stack(samples)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_one_observation_and_a_batch_agree(name: str) -> None:
    policy, space = OBSERVATIONS[name]
    model = make_model(policy, space, ACTIONS["box"])
    model.learn(12)
    samples = [space.sample() for _ in range(4)]
    batched, state = model.predict(stack(samples), deterministic=True)
    assert state is None
    assert batched.shape == (4, 2)
    for sample, expected in zip(samples, batched, strict=True):
        action, _ = model.predict(sample, deterministic=True)
        assert action.shape == (2,)
        np.testing.assert_allclose(action, expected, atol=1e-5)


@pytest.mark.parametrize("backend", ["fused", "torch"])
@pytest.mark.parametrize("name", ACTIONS)
def test_actions_fit_their_space(name: str, backend: str) -> None:
    """While training (the environment checks each action) and from predict, sampled and deterministic."""
    policy, space = OBSERVATIONS["vector"]
    action_space = ACTIONS[name]
    model = make_model(policy, space, action_space, backend)
    model.learn(24)
    for deterministic in (False, True):
        action, _ = model.predict(space.sample(), deterministic=deterministic)
        assert action_space.contains(action if action.shape else action[()]), action
        batch, _ = model.predict(stack([space.sample() for _ in range(6)]), deterministic=deterministic)
        assert batch.shape == (6, *(action_space.shape or ()))
        assert all(action_space.contains(each) for each in batch)


@pytest.mark.parametrize("name", ["image, channels last", "image, channels first"])
def test_images_are_taken_either_way_round(name: str) -> None:
    policy, space = OBSERVATIONS[name]
    model = make_model(policy, space, ACTIONS["box"])
    assert model.observation_space.shape == (3, 40, 36)
    first = np.random.default_rng(0).integers(0, 256, (2, 3, 40, 36), dtype=np.uint8)
    last = np.moveaxis(first, 1, -1)
    expected, _ = model.predict(first, deterministic=True)
    np.testing.assert_allclose(model.predict(last, deterministic=True)[0], expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(last[0], deterministic=True)[0], expected[0], atol=1e-6)


def parts(action: Any) -> list[Any]:
    """The numbers of an action, whatever its structure."""
    if isinstance(action, dict):
        return [number for each in action.values() for number in parts(each)]
    if isinstance(action, tuple):
        return [number for each in action for number in parts(each)]
    return np.asarray(action, np.float64).flatten().tolist()


@every_member
def test_predictions_of_every_member(member: Member) -> None:
    """One observation and a batch agree, actions lie in the space, and obey the masks."""
    model = member.learn(member.make(), 32)
    observation_space, action_space = model.observation_space, model.action_space
    observation_space.seed(0)
    samples = [observation_space.sample() for _ in range(5)]
    options: dict[str, Any] = {}
    if member.masks:
        masks = np.ones((5, sum(model._collector.masks._groups)), bool)
        masks[:, :2] = False  # of the first choice, only the last actions are left
        options = {"action_masks": masks}
    for deterministic in (True, False):
        batch, state = model.predict(stack(samples), deterministic=deterministic, **options)
        assert len(batch) == 5
        for action in batch:
            assert action_space.contains(action if isinstance(action, dict) or action.shape else action[()]), action
            if member.masks:
                first = action["kind"] - action_space["kind"].start if isinstance(action, dict) else action
                assert first >= 2
    expected, state = model.predict(stack(samples), deterministic=True, **options)
    assert (state is not None) is model.policy.recurrent
    for row, sample in enumerate(samples):
        chosen = {name: value[row] for name, value in options.items()}
        action, alone = model.predict(sample, deterministic=True, **chosen)
        np.testing.assert_allclose(parts(action), parts(expected[row]), atol=1e-5)
        if state is not None:
            np.testing.assert_allclose(alone[0][:, 0], state[0][:, row], atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru", "everything"])
def test_memory_outside_of_training(name: str) -> None:
    """The state that predict returns, given back, continues the episode; a start or no state begins a new one."""
    model = FAMILY[name].learn(FAMILY[name].make(), 32)
    model.observation_space.seed(1)
    first, second = (stack([model.observation_space.sample() for _ in range(3)]) for _ in range(2))
    _, state = model.predict(first, deterministic=True)
    _, carried = model.predict(second, state, np.array([False, True, False]), deterministic=True)
    _, fresh = model.predict(second, deterministic=True)
    np.testing.assert_allclose(carried[0][:, 1], fresh[0][:, 1], atol=1e-6)
    assert np.abs(carried[0][:, [0, 2]] - fresh[0][:, [0, 2]]).max() > 1e-4


def test_sampling_follows_torchs_seed() -> None:
    import torch

    model = make_model(*OBSERVATIONS["vector"], ACTIONS["box"])
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(model.predict(np.zeros((8, 3), np.float32))[0])
    assert np.array_equal(*draws)
    assert len({float(action[0]) for action in draws[0]}) > 1


def test_lists_and_float64_are_taken() -> None:
    model = make_model(*OBSERVATIONS["vector"], ACTIONS["box"])
    expected, _ = model.predict(np.array([0.1, 0.2, 0.3], np.float32), deterministic=True)
    np.testing.assert_allclose(model.predict([0.1, 0.2, 0.3], deterministic=True)[0], expected, atol=1e-6)
    chooser = make_model(*OBSERVATIONS["discrete"], ACTIONS["discrete"])
    assert chooser.predict(3, deterministic=True)[0] == chooser.predict(np.array([3]), deterministic=True)[0][0]


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_state_dependent_noise_is_as_large_as_it_was_learned(algorithm: Any, backend: str, tmp_path: Any) -> None:
    """The noise of ``predict`` follows log σ while training goes on, and after the model is loaded."""
    model = algorithm("MlpPolicy", "Pendulum-v1", n_steps=16, seed=0, use_sde=True, backend=backend, learning_rate=1e-9)
    observation = np.array([[0.3, 0.9, 0.1]], np.float32)

    def noise(model: Any) -> float:
        model.policy.action_net.weight.data.zero_()  # without it, the mean action could lie at the bound
        mean, _ = model.predict(observation, deterministic=True)
        return float(np.abs(model.predict(observation)[0] - mean).max())

    assert noise(model) > 0.05
    with torch.no_grad():
        model.policy.log_std.fill_(-9.0)
    model.learn(16)
    assert 0.0 < noise(model) < 0.01
    model.save(tmp_path / "model")
    assert 0.0 < noise(algorithm.load(tmp_path / "model")) < 0.01


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (3, "state is 3; pass the state that the previous predict"),
        ((np.full((1, 1, 8), np.nan, np.float32),) * 2, "state holds NaN or infinity; pass None"),
    ],
)
def test_what_is_no_memory_is_refused(state: Any, message: str) -> None:
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", policy_kwargs={"lstm_hidden_size": 8})
    with pytest.raises((TypeError, NonFiniteError), match=message):
        model.predict(np.zeros(4, np.float32), state=state)
