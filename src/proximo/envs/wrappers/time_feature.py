"""Show the policy how much of the episode is left."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array, Info, Observation
from proximo.errors import ArgumentValueError


class TimeFeatureWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Appends the share of the episode that remains, 1 → 0, to a vector observation (https://arxiv.org/abs/1712.00378).

    Of a Dict space the part ``observation`` is extended. The length of an episode is the environment's registered time
    limit, or ``max_steps`` where it has none. In ``test_mode`` the feature stays 1, which shows whether a policy has
    merely learnt what to do when.

    >>> env = TimeFeatureWrapper(gym.make("Pendulum-v1"))
    >>> env.reset()[0][-1].item(), round(env.step([0.0])[0][-1].item(), 3)
    (1.0, 0.995)
    """

    def __init__(self, env: gym.Env[Any, Any], max_steps: int = 1000, test_mode: bool = False) -> None:
        """Arguments:
        env: The environment that is wrapped.
        max_steps: Length of an episode where the environment has no time limit of its own.
        test_mode: Whether the feature stays 1, which shows if a policy has merely learnt what to do when.
        """
        super().__init__(env)
        space = env.observation_space
        box = space.spaces.get("observation") if isinstance(space, spaces.Dict) else space
        if not isinstance(box, spaces.Box) or len(box.shape) != 1:
            raise ArgumentValueError(
                "TimeFeatureWrapper extends a Box of one dimension, alone or as the part 'observation' of a Dict; "
                f"this environment shows {space}"
            )
        self.dtype = box.dtype
        low, high = np.append(box.low, 0).astype(box.dtype), np.append(box.high, 1).astype(box.dtype)
        longer = spaces.Box(low, high, dtype=box.dtype.type)
        self.observation_space = (
            spaces.Dict({**space.spaces, "observation": longer}) if isinstance(space, spaces.Dict) else longer
        )
        self._max_steps: int = getattr(env.spec, "max_episode_steps", None) or max_steps
        self._current_step = 0
        self._test_mode = test_mode

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        self._current_step = 0
        observation, info = self.env.reset(**kwargs)
        return self._with_time(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        self._current_step += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_time(observation), reward, terminated, truncated, info

    def _with_time(self, observation: Observation) -> Observation:
        if isinstance(observation, dict):
            return {**observation, "observation": self._extended(observation["observation"])}
        return self._extended(observation)

    def _extended(self, vector: Array) -> Array:
        extended = np.empty(len(vector) + 1, self.dtype)
        extended[:-1] = vector
        extended[-1] = 1.0 if self._test_mode else 1.0 - self._current_step / self._max_steps
        return extended
