"""An environment with Dict observations whose seed decides everything."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class DictionaryEnv(gym.Env[Any, Any]):
    """A picture, a vector and a number; the action that equals the number is rewarded."""

    observation_space = spaces.Dict(
        picture=spaces.Box(0, 255, (1, 36, 36), np.uint8), vector=spaces.Box(-9.0, 9.0, (3,)), number=spaces.Discrete(2)
    )
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 10) -> None:
        self.length = length  # of an episode; then it is truncated

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def _observation(self) -> dict[str, Any]:
        self.number = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 256, (1, 36, 36), dtype=np.uint8)
        vector = self.np_random.normal(size=3).clip(-9.0, 9.0).astype(np.float32)
        return {"picture": picture, "vector": vector, "number": self.number}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self.number)
        self.steps += 1
        return self._observation(), reward, False, self.steps == self.length, {}
