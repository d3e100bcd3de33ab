"""The same rewards, values and ends give the same advantages as in Stable-Baselines3."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO as OraclePPO
from stable_baselines3.common.buffers import RolloutBuffer as OracleBuffer
from stable_baselines3.common.callbacks import BaseCallback as OracleCallback
from stable_baselines3.common.env_util import make_vec_env as oracle_vec_env

from proximo import PPO, make_vec_env
from proximo.rollout.storage import RolloutBuffer, estimate_advantages
from proximo.training.callbacks import BaseCallback

ONE_NUMBER = spaces.Box(-1.0, 1.0, (1,), np.float32)
TWO_CHOICES = spaces.Discrete(2)


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (0.9, 0.0), (0.8, 1.0), (1.0, 1.0)])
def test_ends_in_every_position(gamma: float, gae_lambda: float) -> None:
    """Four steps, each of which goes on, terminates or is truncated: all 81 ways, one environment each."""
    ways = np.array(list(itertools.product([0, 1, 2], repeat=4))).T  # [time, env]
    steps, environments = ways.shape
    terminated, truncated = ways == 1, ways == 2
    random = np.random.default_rng(0)
    rewards, values, finals = (random.normal(size=(steps, environments)).astype(np.float32) for _ in range(3))
    last_values = random.normal(size=environments).astype(np.float32)

    oracle = OracleBuffer(
        steps, ONE_NUMBER, TWO_CHOICES, device="cpu", gamma=gamma, gae_lambda=gae_lambda, n_envs=environments
    )
    starts = np.ones(environments, bool)
    for step in range(steps):
        oracle.add(
            np.zeros((environments, 1), np.float32),
            np.zeros((environments, 1)),
            rewards[step] + gamma * np.where(truncated[step], finals[step], 0.0),
            starts,
            torch.as_tensor(values[step]),
            torch.zeros(environments),
        )
        starts = terminated[step] | truncated[step]
    oracle.compute_returns_and_advantage(torch.as_tensor(last_values), starts)

    ours = RolloutBuffer(
        steps, ONE_NUMBER, TWO_CHOICES, device="cpu", gamma=gamma, gae_lambda=gae_lambda, n_envs=environments
    )
    rollout = ours.rollout
    rollout.rewards[:], rollout.values[:], rollout.last_values[:] = rewards, values, last_values
    rollout.terminated[:], rollout.truncated[:] = terminated, truncated
    rollout.bootstrap_values[:] = np.where(truncated, finals, 0.0)
    estimate_advantages(ours, None)
    np.testing.assert_allclose(ours.advantages, oracle.advantages, atol=1e-5)
    np.testing.assert_allclose(ours.returns, oracle.returns, atol=1e-5)


class ScriptedEnv(gym.Env[Any, Any]):
    """Observations, rewards and ends follow a script and not the actions, so both libraries see the same rollout."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)
    ends: ClassVar[dict[int, str]] = {
        3: "terminated",
        5: "truncated",
        6: "both",
        11: "truncated",
        12: "terminated",
        16: "truncated",
    }

    def __init__(self) -> None:
        self.clock = 0

    def _observe(self) -> Any:
        return np.sin(self.clock * np.array([0.7, 1.3, 2.1]) + 1.0).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.clock += 1
        end = self.ends.get(self.clock, "")
        observation = self._observe() * (0.5 if end else 1.0)  # the last observation is not the next first one
        return observation, float(np.cos(self.clock)), end in ("terminated", "both"), end in ("truncated", "both"), {}


def keep_rollout(base: type[Any]) -> Any:
    """A callback of either library that copies the buffer when the rollout has ended."""

    class Keep(base):  # type: ignore[misc]
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            buffer = self.model.rollout_buffer
            names = ("observations", "rewards", "values", "episode_starts", "advantages", "returns")
            self.rollout = {name: np.array(getattr(buffer, name), np.float32) for name in names}

    return Keep()


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize("with_locals", [False, True])
def test_collected_rollouts_are_equal(backend: str, with_locals: bool) -> None:
    """Through ``learn``: 16 steps of two environments, a truncation as the very last one."""
    arguments: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "seed": 0, "device": "cpu"}
    ours = PPO("MlpPolicy", make_vec_env(ScriptedEnv, n_envs=2), backend=backend, **arguments)
    oracle = OraclePPO("MlpPolicy", oracle_vec_env(ScriptedEnv, n_envs=2), **arguments)
    oracle.policy.load_state_dict(ours.policy.state_dict())
    mine, theirs = keep_rollout(BaseCallback), keep_rollout(OracleCallback)
    if not with_locals:  # without a step method the collector takes its lean path
        del type(mine)._on_step
    ours.learn(32, callback=mine)
    oracle.learn(32, callback=theirs)
    rollout = ours.rollout_buffer.rollout
    assert rollout.truncated[:, 0].nonzero()[0].tolist() == [4, 10, 15]
    assert rollout.terminated[:, 0].nonzero()[0].tolist() == [2, 5, 11]
    # Stable-Baselines3 adds the bootstrap to the reward, we keep it apart
    mine.rollout["rewards"] = rollout.rewards + ours.gamma * rollout.bootstrap_values
    for name, expected in theirs.rollout.items():
        np.testing.assert_allclose(mine.rollout[name], expected, atol=2e-5, err_msg=name)
    assert ours.ep_info_buffer[0]["l"] == oracle.ep_info_buffer[0]["l"] == 3
    assert [episode["r"] for episode in ours.ep_info_buffer] == [episode["r"] for episode in oracle.ep_info_buffer]
