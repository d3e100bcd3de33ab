"""One seed is one training, whichever backend runs it: noise and minibatches come from the agent's own generator."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from proximo import PPO, make_vec_env
from proximo.networks.distributions import make_proba_distribution
from proximo.networks.distributions.base import NORMAL, UNIFORM


class Driven(gym.Env[np.ndarray, Any]):
    """Observations follow smoothly from the actions: a training that leaves the other's path leaves it for good."""

    observation_space = spaces.Box(-2.0, 2.0, (5,), np.float32)

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.state = 0, self.np_random.uniform(-1.0, 1.0, 5).astype(np.float32)
        return self.state, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        push = float(np.sum(np.asarray(action, np.float64)))
        self.state = (0.9 * self.state + 0.1 * np.sin(push + np.arange(5))).astype(np.float32)
        return self.state, float(self.state[0]), False, self.steps >= 37, {}


SPACES: dict[str, tuple[spaces.Space[Any], dict[str, Any]]] = {
    "discrete": (spaces.Discrete(3), {}),
    "box": (spaces.Box(-1.0, 1.0, (2,)), {}),
    "multidiscrete": (spaces.MultiDiscrete([3, 2, 4]), {}),
    "multibinary": (spaces.MultiBinary(3), {}),
    "state-dependent noise": (spaces.Box(-1.0, 1.0, (2,)), {"use_sde": True, "sde_sample_freq": 4}),
}


def trained(action_space: spaces.Space[Any], backend: Any, **options: Any) -> tuple[PPO, np.ndarray]:
    """A model after three updates, and all actions that its environments were given."""
    env = make_vec_env(lambda: Driven(action_space), n_envs=4, seed=0)
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=4, seed=3, backend=backend, **options)
    actions: list[np.ndarray] = []
    step = model.env.step_arrays

    def watched(given: Any) -> Any:
        actions.append(np.array(given, np.float64))
        return step(given)

    model.env.step_arrays = watched
    model.learn(3 * 1024)
    assert model.backend.startswith(backend)
    return model, np.stack(actions)


@pytest.mark.parametrize(("action_space", "options"), SPACES.values(), ids=SPACES)
def test_both_backends_train_alike(action_space: spaces.Space[Any], options: dict[str, Any]) -> None:
    first, first_actions = trained(action_space, "torch", **options)
    second, second_actions = trained(action_space, "fused", **options)
    # the first rollout, 256 steps of 4 environments; later ones see parameters that differ by rounding
    np.testing.assert_allclose(first_actions[:256], second_actions[:256], atol=1e-4)
    pairs = zip(first.policy.parameters(), second.policy.parameters(), strict=True)
    assert max(float((one - other).detach().abs().max()) for one, other in pairs) < 1e-4


def test_a_seed_of_its_own_is_another_training() -> None:
    """The comparison above would notice: another seed gives other actions."""
    _, one = trained(spaces.Discrete(3), "fused")
    env = make_vec_env(lambda: Driven(spaces.Discrete(3)), n_envs=4, seed=0)
    other = PPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=4, seed=4).learn(1024)
    assert (other.rollout_buffer.actions[..., 0] != one[:256]).any()


def test_hybrid_actions_take_noise_of_each_kind() -> None:
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1.0, 1.0, (2,)), c=spaces.MultiBinary(2))
    assert make_proba_distribution(space).noise_kinds == (UNIFORM, NORMAL, NORMAL, UNIFORM, UNIFORM)
