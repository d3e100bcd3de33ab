"""An environment to try code on: any spaces, nothing to learn."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from proximo.data import Info
from proximo.functional.spaces import Space


class RandomEnv(gym.Env[Any, Any]):
    """Random observations whatever the action, reward 0.5; one step in four terminates, one in four truncates."""

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        """Arguments:
        observation_space: What observations are drawn from.
        action_space: What actions are allowed; they change nothing.
        """
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        chance = self.np_random.random()
        return self.observation_space.sample(), 0.5, chance < 0.25, 0.25 <= chance < 0.5, {}
