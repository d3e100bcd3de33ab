"""Environments whose every number can be foretold."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class CountingEnv(gym.Env):
    """Episode e (from 0) shows 100·e at its start and 100·e + k after k steps; step k earns k.

    It ends after ``length`` steps: terminated, or truncated if ``truncate``.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, length=3, truncate=False, render_mode=None, reuse_arrays=False):
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.length, self.truncate, self.render_mode = length, truncate, render_mode
        self.episode = -1
        self.step_count = 0
        self.last_action = None
        self.reset_calls = []
        self._shared = np.zeros(2, np.float32) if reuse_arrays else None

    def _observe(self):
        array = np.zeros(2, np.float32) if self._shared is None else self._shared
        array[:] = 100 * self.episode + self.step_count
        return array

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.reset_calls.append((seed, options))
        self.episode += 1
        self.step_count = 0
        return self._observe(), {"opened": self.episode}

    def step(self, action):
        self.last_action = action
        self.step_count += 1
        ended = self.step_count >= self.length
        info = {"count": self.step_count}
        return (
            self._observe(),
            float(self.step_count),
            ended and not self.truncate,
            ended and self.truncate,
            info,
        )

    def render(self):
        return np.full((4, 6, 3), self.step_count, np.uint8)

    def double(self, number):
        return 2 * number + self.length


class DictCountingEnv(CountingEnv):
    """The same under key "vector", beside a channels-last image of the count."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.observation_space = spaces.Dict(
            {
                "vector": spaces.Box(-1e6, 1e6, (2,), np.float32),
                "image": spaces.Box(0, 255, (40, 36, 3), np.uint8),
            }
        )

    def _observe(self):
        image = np.zeros((40, 36, 3), np.uint8)
        image[..., 1] = self.step_count
        return {"vector": super()._observe(), "image": image}


class RandomEnv(gym.Env):
    """Random walks of random length, from the seeded generator."""

    def __init__(self, size=3, dtype=np.float32):
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), dtype)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.state = np.zeros(size)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=self.state.shape)
        return self.state.astype(self.observation_space.dtype), {}

    def step(self, action):
        self.state = self.state * 0.9 + self.np_random.normal(size=self.state.shape) + action.sum()
        draw = self.np_random.random()
        reward = float(self.state.sum())
        return self.state.astype(self.observation_space.dtype), reward, draw < 0.05, draw > 0.95, {"draw": draw}


class TroubleEnv(CountingEnv):
    """Fails at the second step in the way asked for."""

    def __init__(self, trouble, **kwargs):
        super().__init__(length=10, **kwargs)
        self.trouble = trouble
        if trouble == "constructor":
            raise OSError("no such simulator")

    def reset(self, **kwargs):
        if self.trouble == "reset":
            raise KeyError("missing level")
        return super().reset(**kwargs)

    def step(self, action):
        if self.step_count == 1:
            if self.trouble == "exception":
                raise ValueError("the pole broke")
            if self.trouble == "exit":
                os._exit(7)
            if self.trouble == "sleep":
                time.sleep(60)
            if self.trouble.startswith("SIG"):
                faulthandler.disable()  # pytest's, which a forked worker has too
                os.kill(os.getpid(), getattr(signal, self.trouble))
                time.sleep(60)
        return super().step(action)

    def fail(self):
        raise ValueError("asked to fail")
