"""rllte's tensor environments; the classes behind them are the library's."""

from __future__ import annotations

from typing import Any

import torch

from proximo.envs.adapters.torch_vec_env import TorchVecEnv
from proximo.envs.make_tensors import make_tensor_env as make_rllte_env
from proximo.errors import absent_name

__all__ = ["Gymnasium2Torch", "make_rllte_env"]
_ABSENT = frozenset({"DistributedWrapper", "EnvPoolAsync2Gymnasium", "EnvPoolSync2Gymnasium", "FrameStack"})


class Gymnasium2Torch(TorchVecEnv):
    """rllte's constructor of tensor environments; ``envpool`` need not be said, an EnvPool is recognised."""

    def __init__(self, env: Any, device: torch.device | str, envpool: bool = False) -> None:
        super().__init__(env, device)


def __getattr__(name: str) -> Any:
    explanation = "; proximo.envs has VecFrameStack, and takes an EnvPool as it is"
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
