"""PyBullet's robots."""

from __future__ import annotations

import torch

from proximo.rllte.env.utils import make_rllte_env
from proximo.rllte.env.vec_env import TorchVecEnv


def make_bullet_env(
    env_id: str = "AntBulletEnv-v0",
    num_envs: int = 1,
    device: torch.device | str = "cpu",
    seed: int = 0,
    parallel: bool = True,
) -> TorchVecEnv:
    """Robots of ``pybullet_envs_gymnasium``; ``parallel`` is what the other makers call ``asynchronous``."""
    return make_rllte_env(env_id, num_envs, seed, device, asynchronous=parallel)
