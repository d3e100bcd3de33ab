"""Pairs of models, ours and Stable-Baselines3's, with the same weights and the same rollout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO as OraclePPO
from stable_baselines3.common.logger import configure as oracle_logger
from stable_baselines3.common.vec_env import DummyVecEnv as OracleVecEnv

from proximo import PPO
from proximo.envs import DummyVecEnv

STEPS, ENVIRONMENTS = 12, 3


class RandomEnv(gym.Env[Any, Any]):
    """Samples of given spaces; the parity tests fill the buffers themselves."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


@dataclass
class Pair:
    """Our model and the oracle, equal in weights."""

    ours: PPO
    oracle: OraclePPO

    def copy_weights(self) -> None:
        self.oracle.policy.load_state_dict(self.ours.policy.state_dict())

    def fill(self, seed: int, drift: float = 0.3) -> None:
        """The same random rollout for both; old log-probabilities lie off the policy's by about ``drift``."""
        random = np.random.default_rng(seed)
        space = self.ours.observation_space
        space.seed(seed)
        self.ours.rollout_buffer.reset()
        self.oracle.rollout_buffer.reset()
        starts = np.ones(ENVIRONMENTS, bool)
        for _ in range(STEPS):
            observation = np.stack([space.sample() for _ in range(ENVIRONMENTS)])
            with torch.no_grad():
                actions, values, log_prob = self.oracle.policy(torch.as_tensor(observation))
            values = values + torch.as_tensor(random.normal(0.0, 0.3, values.shape), dtype=torch.float32)
            log_prob = log_prob + torch.as_tensor(random.normal(0.0, drift, log_prob.shape), dtype=torch.float32)
            rewards = random.normal(0.0, 1.0, ENVIRONMENTS).astype(np.float32)
            stored = actions.numpy().reshape(ENVIRONMENTS, -1)
            self.oracle.rollout_buffer.add(observation, stored, rewards, starts, values, log_prob)
            self.ours.rollout_buffer.add(observation, stored, rewards, starts, values, log_prob)
            starts = random.random(ENVIRONMENTS) < 0.2
        last_values = torch.as_tensor(random.normal(0.0, 1.0, ENVIRONMENTS), dtype=torch.float32)
        self.oracle.rollout_buffer.compute_returns_and_advantage(last_values.reshape(-1, 1), starts)
        self.ours.rollout_buffer.compute_returns_and_advantage(last_values, starts)

    def train(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        """One update each, with the same minibatches in the same order."""
        orders = [np.random.default_rng((seed, epoch)).permutation(STEPS * ENVIRONMENTS) for epoch in range(50)]
        ours, theirs = iter(orders), iter(orders)
        with monkeypatch.context() as patch:
            patch.setattr(self.ours, "generator", SimpleNamespace(permutation=lambda _: next(ours)))
            # our samples are numbered step by step, the oracle's environment by environment
            patch.setattr(
                np.random,
                "permutation",
                lambda _: (order := next(theirs)) % ENVIRONMENTS * STEPS + order // ENVIRONMENTS,
            )
            self.ours.train()
            self.oracle.train()

    def optimizer_averages(self) -> dict[str, dict[str, tuple[torch.Tensor, torch.Tensor]]]:
        """By name, then by parameter, ours and theirs. Adam's, after one step, are multiples of the gradient and of its
        square."""
        ours = self.ours.policy.optimizer.state_dict()["state"]
        theirs = self.oracle.policy.optimizer.state_dict()["state"]
        # torch makes the averages at the first step, we have zeros from the start
        names = {name for state in ours.values() for name in state}

        def expected(index: int, name: str) -> torch.Tensor:
            return torch.as_tensor(
                theirs.get(index, {}).get(name, torch.zeros_like(torch.as_tensor(ours[index][name])))
            )

        return {
            name: {f"{index}.{name}": (torch.as_tensor(ours[index][name]), expected(index, name)) for index in ours}
            for name in names
        }

    def metrics(self) -> tuple[dict[str, float], dict[str, float]]:
        def of(model: Any) -> dict[str, float]:
            return {name: value for name, value in model.logger.name_to_value.items() if name.startswith("train/")}

        return of(self.ours), of(self.oracle)


@pytest.fixture
def make_pair() -> Callable[..., Pair]:
    def make(
        action_space: spaces.Space[Any],
        observation_space: spaces.Space[Any] | None = None,
        policy: str = "MlpPolicy",
        backend: str = "torch",
        **arguments: Any,
    ) -> Pair:
        observed = observation_space or spaces.Box(-2.0, 2.0, (5,), np.float32)
        factories = [lambda: RandomEnv(observed, action_space) for _ in range(ENVIRONMENTS)]
        arguments = {"n_steps": STEPS, "batch_size": 12, "n_epochs": 3, "seed": 0, "device": "cpu"} | arguments
        ours = PPO(policy, DummyVecEnv(factories), backend=backend, **arguments)
        oracle = OraclePPO(policy, OracleVecEnv(factories), **arguments)
        oracle.set_logger(oracle_logger(None, []))
        pair = Pair(ours, oracle)
        pair.copy_weights()
        return pair

    return make
