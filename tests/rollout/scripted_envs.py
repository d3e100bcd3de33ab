"""Environments whose every step is written down beforehand."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

HYBRID = spaces.Dict(
    kind=spaces.Discrete(3, start=1),
    power=spaces.Box(-0.5, 0.5, (2,), np.float32),
    switches=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
)


class Scripted(gym.Env[Any, Any]):
    """Episodes of given lengths, positive ones terminated, negative ones cut by a limit; then they begin again.

    An observation tells (environment, episode, step), so no two of them are alike. Every action is checked.
    """

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)

    def __init__(self, number: int, lengths: list[int], action_space: spaces.Space[Any] | None = None) -> None:
        self.number, self.lengths = number, lengths
        self.action_space = action_space or spaces.Discrete(3)
        self.episode, self.steps = -1, 0
        self.taken: list[Any] = []

    def observation(self) -> Any:
        return np.array([self.number, self.episode % 10, self.steps], np.float32) / 3.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (action, self.action_space)
        assert self.allowed(action), (action, self.action_masks())
        self.taken.append(action)
        self.steps += 1
        length = self.lengths[self.episode % len(self.lengths)]
        ended = self.steps >= abs(length)
        return self.observation(), float(self.steps), ended and length > 0, ended and length < 0, {}

    def allowed(self, action: Any) -> bool:
        return True

    def action_masks(self) -> Any:
        raise AttributeError("nothing is masked here")


class Masked(Scripted):
    """Forbids, of three actions, those that step and episode point at; of hybrid ones, every choice but two."""

    def allowed(self, action: Any) -> bool:
        if isinstance(self.action_space, spaces.Discrete):
            return bool(self.action_masks()[int(action)])
        masks = self.action_masks()
        chosen = [action["kind"] - 1, *action["switches"][0], *action["switches"][1]]
        groups = np.split(masks, np.cumsum([3, 2, 2, 2]))
        return all(group[int(choice)] for group, choice in zip(groups, chosen, strict=True))

    def action_masks(self) -> Any:
        forbidden = (self.steps + self.episode + self.number) % 3
        masks = np.arange(3) != forbidden
        if isinstance(self.action_space, spaces.Discrete):
            return masks
        side = self.steps % 2 == 0
        return np.concatenate([masks, [side, not side, True, True, not side, side], masks])
