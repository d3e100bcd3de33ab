"""Proof by training: without any reward of the task, intrinsic rewards lead several times farther than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from proximo.envs import DummyVecEnv
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.rllte.agent import PPO
from proximo.rllte.xplore.reward import RE3, BaseReward

pytestmark = pytest.mark.slow

ENVIRONMENTS, STEPS = 8, 100_000
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))
Cells = set[tuple[int, int]]


class SparseGrid(gym.Env[Any, Any]):
    """A walk of 60 steps from the middle of a 101 × 101 grid; the only reward is in a corner, out of reach."""

    size, limit = 101, 60

    def __init__(self, visited: Cells) -> None:
        self.visited = visited
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = np.full(2, self.size // 2), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + MOVES[int(action)], 0, self.size - 1)
        self.steps += 1
        arrived = bool((self.place == self.size - 1).all())
        return self._observe(), float(arrived), arrived, self.steps >= self.limit, {}

    def _observe(self) -> Any:
        self.visited.add((int(self.place[0]), int(self.place[1])))
        return (2.0 * self.place / (self.size - 1) - 1.0).astype(np.float32)


def cells_of_chance(seed: int) -> int:
    """Distinct cells that uniformly random moves visit in as many steps."""
    visited: Cells = set()
    env = SparseGrid(visited)
    env.reset()
    for action in np.random.default_rng(seed).integers(0, len(MOVES), STEPS):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return len(visited)


def cells_of_pretraining(kind: type[BaseReward], seed: int) -> int:
    torch.manual_seed(seed)
    visited: Cells = set()
    env = TorchVecEnv(DummyVecEnv([lambda: SparseGrid(visited)] * ENVIRONMENTS))
    agent = PPO(env=env, seed=seed, pretraining=True, hidden_dim=64, lr=1e-3, discount=0.99)
    agent.set(reward=kind(envs=env, device="cpu"))
    agent.train(num_train_steps=STEPS, log_interval=50)
    return len(visited)


class Nothing(BaseReward):
    """No intrinsic reward at all."""

    def compute(self, samples: Any, sync: bool = True) -> Tensor:
        return super().compute(samples, sync)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pretraining_visits_several_times_more_states_than_chance(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uniformly random moves visit about 860 cells, RE3 4,200 to 6,000.

    The same agent with a reward of zero visits 1,400 to 2,100: normalised advantages make drift out of noise. So it is
    the intrinsic reward that leads farther, not only that a policy changes.
    """
    monkeypatch.chdir(tmp_path)
    visited, drift, chance = cells_of_pretraining(RE3, seed), cells_of_pretraining(Nothing, seed), cells_of_chance(seed)
    assert visited >= 3.5 * chance, (visited, drift, chance)
    assert visited >= 1.5 * drift, (visited, drift, chance)
