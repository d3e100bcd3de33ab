"""Environments to try code on: every action space with vectors, images and dictionaries of both, at random."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from proximo.data import Info
from proximo.envs.testing.environments import BitFlippingEnv
from proximo.errors import near_matches
from proximo.functional.spaces import Space
from proximo.rllte.env.utils import make_rllte_env
from proximo.rllte.env.vec_env import TorchVecEnv


class RandomEnv(gym.Env[Any, Any]):
    """Random observations whatever the action, reward 0.5; one step in four terminates, one in four truncates."""

    def __init__(self, observation_space: Space, action_space: Space) -> None:
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


def _vectors(size: int) -> Space:
    return spaces.Box(-1.0, 1.0, (size,), dtype=np.float32)


def _images() -> Space:
    return spaces.Box(-1.0, 1.0, (3, 84, 84), dtype=np.float32)


def _observation_space(env_id: str, vector_size: int) -> Space:
    known = {
        "StateObsEnv": _vectors(vector_size),
        "PixelObsEnv": _images(),
        "DictObsEnv": spaces.Dict({"image": _images(), "state": _vectors(49)}),
    }
    if env_id not in known:
        raise ValueError(f"no environment {env_id!r} to test with: {near_matches(env_id, known)}")
    return known[env_id]


def _maker(action_space: Space, vector_size: int, task: str) -> Callable[..., TorchVecEnv]:
    """A function that makes environments with these actions, and vectors of that size as states."""

    def make(
        env_id: str = "StateObsEnv",
        num_envs: int = 1,
        device: torch.device | str = "cpu",
        seed: int = 0,
        asynchronous: bool = True,
    ) -> TorchVecEnv:
        factory = partial(RandomEnv, _observation_space(env_id, vector_size), action_space)
        return make_rllte_env(factory, num_envs, seed, device, asynchronous)

    make.__doc__ = f"{task}; ``env_id``: StateObsEnv, PixelObsEnv or DictObsEnv."
    return make


make_box_env = _maker(spaces.Box(-1.0, 1.0, (7,), dtype=np.float32), 49, "Seven real numbers to choose")
make_discrete_env = _maker(spaces.Discrete(7), 49, "One of seven actions to choose")
make_multibinary_env = _maker(spaces.MultiBinary(3), 7, "Three switches to set")
make_multidiscrete_env = _maker(
    spaces.MultiDiscrete([2, 3, 4]), 7, "One of two, of three and of four actions to choose"
)


def make_bitflipping_env(
    env_id: str = "BitFlippingEnv-v0",
    num_envs: int = 1,
    device: torch.device | str = "cpu",
    seed: int = 0,
    asynchronous: bool = True,
    n_bits: int = 15,
    continuous: bool = False,
    max_steps: int | None = 15,
    discrete_obs_space: bool = False,
    image_obs_space: bool = False,
    channel_first: bool = True,
) -> TorchVecEnv:
    """Bits to flip until all are one, ``BitFlippingEnv`` of ``proximo.envs.testing``; ``env_id`` has one value."""
    settings = {
        "n_bits": n_bits,
        "continuous": continuous,
        "max_steps": max_steps,
        "discrete_obs_space": discrete_obs_space,
        "image_obs_space": image_obs_space,
        "channel_first": channel_first,
    }
    return make_rllte_env(BitFlippingEnv, num_envs, seed, device, asynchronous, settings)
