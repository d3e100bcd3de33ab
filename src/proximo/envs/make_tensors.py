"""Makers of vector environments that take and give tensors, with the arguments of rllte and Hsuanwu."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from proximo.envs.adapters.env_pool import make_env_pool_atari
from proximo.envs.adapters.procgen import make_procgen_env as make_procgen_vec_env
from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.envs.make import ATARI_IDS, make_vec_env
from proximo.envs.make import make_atari_env as make_atari_vec_env
from proximo.envs.testing.environments import BitFlippingEnv
from proximo.envs.testing.random_env import RandomEnv
from proximo.envs.vector.frame_stack import VecFrameStack
from proximo.envs.vector.transpose import VecTransposeImage
from proximo.envs.workers.subproc import SubprocVecEnv
from proximo.envs.wrappers.minigrid import wrap_minigrid
from proximo.errors import near_matches
from proximo.functional.spaces import Space


def make_tensor_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    num_envs: int = 1,
    seed: int = 1,
    device: torch.device | str = "cpu",
    asynchronous: bool = True,
    env_kwargs: dict[str, Any] | None = None,
) -> TorchVecEnv:
    """``num_envs`` copies of a gymnasium environment, given by its id or by a callable that makes one.

    Copy ``i`` is seeded with ``seed + i``. ``asynchronous`` steps the copies in worker processes; a single one stays
    in this process.

    >>> make_tensor_env("CartPole-v1", num_envs=2, asynchronous=False).reset()[0].shape
    torch.Size([2, 4])
    """
    vec_env = make_vec_env(env_id, num_envs, seed, env_kwargs=env_kwargs, **worker_options(asynchronous, num_envs))
    return TorchVecEnv(vec_env, device)


def worker_options(asynchronous: bool, num_envs: int) -> dict[str, Any]:
    """Worker processes where there is something to step at the same time.

    Forked where the system can, as rllte's are: its scripts have no ``if __name__ == "__main__":``, which the other
    ways to start a process need.
    """
    if not asynchronous or num_envs == 1:
        return {}
    start_method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    return {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": start_method}}


def make_atari_env(
    env_id: str = "Alien-v5",
    num_envs: int = 8,
    device: torch.device | str = "cpu",
    seed: int = 1,
    frame_stack: int = 4,
    asynchronous: bool = True,
) -> TorchVecEnv:
    """Grey images [env, frame_stack, 84, 84] uint8 of every fourth frame, rewards by their sign, an episode per life.

    ``episode`` in the infos reports whole games with the game's rewards. ``"Alien-v5"`` means ``"ALE/Alien-v5"``.
    """
    vec_env = make_atari_vec_env(
        env_id if ATARI_IDS.search(env_id) else f"ALE/{env_id}",
        num_envs,
        seed,
        env_kwargs={} if "NoFrameskip" in env_id else {"frameskip": 1},  # or four frames would be skipped twice
        **worker_options(asynchronous, num_envs),
    )
    return TorchVecEnv(VecFrameStack(vec_env, frame_stack), device)


def make_envpool_atari_env(
    env_id: str = "Alien-v5",
    num_envs: int = 8,
    device: torch.device | str = "cpu",
    seed: int = 1,
    asynchronous: bool = True,
) -> TorchVecEnv:
    """The same from EnvPool, whose threads step all games at once whatever ``asynchronous`` says."""
    return TorchVecEnv(make_env_pool_atari(env_id, num_envs, seed), device)


def make_bullet_env(
    env_id: str = "AntBulletEnv-v0",
    num_envs: int = 1,
    device: torch.device | str = "cpu",
    seed: int = 0,
    parallel: bool = True,
) -> TorchVecEnv:
    """Robots of ``pybullet_envs_gymnasium``; ``parallel`` is what the other makers call ``asynchronous``."""
    return make_tensor_env(env_id, num_envs, seed, device, asynchronous=parallel)


def make_minigrid_env(
    env_id: str = "MiniGrid-DoorKey-5x5-v0",
    num_envs: int = 8,
    fully_observable: bool = True,
    fully_numerical: bool = False,
    seed: int = 0,
    frame_stack: int = 1,
    device: torch.device | str = "cpu",
    asynchronous: bool = True,
) -> TorchVecEnv:
    """The whole grid as an image [env, 3 · frame_stack, width, height] uint8, or what the agent sees.

    See :func:`proximo.envs.wrappers.minigrid.wrap_minigrid`; only the image is stacked.
    """
    vec_env = make_vec_env(
        env_id,
        num_envs,
        seed,
        wrapper_class=wrap_minigrid,
        wrapper_kwargs={"fully_observable": fully_observable, "fully_numerical": fully_numerical},
        **worker_options(asynchronous, num_envs),
    )
    if fully_observable and frame_stack > 1:
        vec_env = VecFrameStack(vec_env, frame_stack, channels_order="first")
    if fully_observable:  # a grid may be smaller than its channels are many, so nobody should guess which come first
        vec_env = VecTransposeImage(vec_env, skip=True)
    return TorchVecEnv(vec_env, device)


def make_procgen_env(
    env_id: str = "bigfish",
    num_envs: int = 64,
    device: torch.device | str = "cpu",
    seed: int = 1,
    gamma: float = 0.99,
    num_levels: int = 200,
    start_level: int = 0,
    distribution_mode: str = "easy",
) -> TorchVecEnv:
    """Images [env, 3, 64, 64] uint8, normalised rewards: :func:`proximo.envs.adapters.procgen.make_procgen_env`."""
    games = make_procgen_vec_env(env_id, num_envs, seed, num_levels, start_level, distribution_mode, gamma)
    return TorchVecEnv(games, device)


def make_envpool_procgen_env(
    env_id: str = "bigfish",
    num_envs: int = 64,
    device: torch.device | str = "cpu",
    seed: int = 1,
    gamma: float = 0.99,
    num_levels: int = 200,
    start_level: int = 0,
    distribution_mode: str = "easy",
    asynchronous: bool = True,
) -> TorchVecEnv:
    """:func:`make_procgen_env`: both come from EnvPool, whose threads step all games at once."""
    return make_procgen_env(env_id, num_envs, device, seed, gamma, num_levels, start_level, distribution_mode)


# -- environments to try code on: every action space with vectors, images and dictionaries of both, at random


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
        return make_tensor_env(factory, num_envs, seed, device, asynchronous)

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
    return make_tensor_env(BitFlippingEnv, num_envs, seed, device, asynchronous, settings)
