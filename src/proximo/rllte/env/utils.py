"""``make_rllte_env`` and what the other makers share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch

from proximo.envs.make import make_vec_env
from proximo.envs.workers.subproc import SubprocVecEnv
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
