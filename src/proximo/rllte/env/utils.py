"""``make_rllte_env`` and what the other makers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch

from proximo.envs.make import make_vec_env
from proximo.envs.subproc import SubprocVecEnv
from proximo.envs.vec_env import VecEnv
from proximo.rllte.env.vec_env import TorchVecEnv


class Gymnasium2Torch(TorchVecEnv):
    """rllte's constructor of tensor environments; ``envpool`` need not be said, an EnvPool is recognised."""

    def __init__(self, env: Any, device: torch.device | str, envpool: bool = False) -> None:
        super().__init__(env, device)


def make_rllte_env(
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

    >>> make_rllte_env("CartPole-v1", num_envs=2, asynchronous=False).reset()[0].shape
    torch.Size([2, 4])
    """
    vec_env = make_vec_env(
        env_id, num_envs, seed, env_kwargs=env_kwargs, vec_env_cls=vec_env_class(asynchronous, num_envs)
    )
    return TorchVecEnv(vec_env, device)


def vec_env_class(asynchronous: bool, num_envs: int) -> type[VecEnv] | None:
    """Worker processes where there is something to step at the same time."""
    return SubprocVecEnv if asynchronous and num_envs > 1 else None
