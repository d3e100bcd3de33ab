"""rllte's tensor environments; the classes behind them are the library's."""

from __future__ import annotations

from typing import Any

import torch

from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.envs.make_tensors import make_tensor_env as make_rllte_env
from proximo.rllte.paths import absent

__all__ = ["Gymnasium2Torch", "make_rllte_env"]


class Gymnasium2Torch(TorchVecEnv):
    """rllte's constructor of tensor environments; ``envpool`` need not be said, an EnvPool is recognised."""

    def __init__(self, env: Any, device: torch.device | str, envpool: bool = False) -> None:
        """Arguments:
        env: A gymnasium VectorEnv or an EnvPool.
        device: Where tensors live: cpu, cuda, …
        envpool: Without effect: an EnvPool is recognised.
        """
        super().__init__(env, device)


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
