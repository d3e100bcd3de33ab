"""Atari games with the preprocessing of the literature."""

from __future__ import annotations

import torch

from proximo.envs.adapters.env_pool import make_env_pool_atari
from proximo.envs.make import ATARI_IDS
from proximo.envs.make import make_atari_env as make_atari_vec_env
from proximo.envs.vector.frame_stack import VecFrameStack
from proximo.rllte.env.utils import worker_options
from proximo.rllte.env.vec_env import TorchVecEnv


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
