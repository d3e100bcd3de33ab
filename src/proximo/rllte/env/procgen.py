"""Procgen's games."""

from __future__ import annotations

import torch

from proximo.envs.adapters.procgen import make_procgen_env as make_procgen_vec_env
from proximo.rllte.env.vec_env import TorchVecEnv


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
    """Images [env, 3, 64, 64] uint8 and normalised rewards, as of :func:`proximo.envs.make_procgen_env`."""
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
