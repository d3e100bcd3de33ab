"""Hold each action for several steps."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym

from proximo.data import Info


class FrameSkip(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats each action for ``skip`` steps and sums their rewards; shows the last observation.

    >>> env = FrameSkip(gym.make("CartPole-v1"), skip=3)
    >>> _ = env.reset(seed=0)
    >>> env.step(0)[1]
    3.0
    """

    def __init__(self, env: gym.Env[Any, Any], skip: int = 4) -> None:
        """Arguments:
        env: The environment that is wrapped.
        skip: Steps for which an action is held.
        """
        super().__init__(env)
        if skip < 1:
            raise ValueError(f"skip is {skip}; expected the steps that an action is held for, at least 1")
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info
