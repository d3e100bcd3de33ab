"""Names of types that rllte's signatures have."""

from __future__ import annotations

from typing import Any

from proximo.data import TensorObservation as GymObs
from proximo.errors import absent_name
from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.rllte.common.prototype.base_policy import BasePolicy as BasePolicy
from proximo.rllte.env.utils import Gymnasium2Torch as Gymnasium2Torch
from proximo.rollout.tensor_storage import BaseStorage as BaseStorage
from proximo.rollout.tensor_storage import RolloutBatch, VanillaRolloutStorage

__all__ = [
    "BaseDistribution", "BasePolicy", "BaseStorage", "DictRolloutBatch", "GymObs", "Gymnasium2Torch", "ObsShape",
    "OnPolicyType", "RolloutStorageType", "VanillaRolloutBatch", "VecEnv",
]  # fmt: skip

ObsShape = tuple[int, ...] | dict[str, tuple[int, ...]]
VecEnv = Gymnasium2Torch
VanillaRolloutBatch = DictRolloutBatch = RolloutBatch
RolloutStorageType = VanillaRolloutStorage
OnPolicyType = BasePolicy


def __getattr__(name: str) -> Any:
    other = name.startswith(("OffPolicy", "Replay", "Distributed")) or name.endswith("ReplayBatch")
    raise absent_name(__name__, name, ", which has types of on-policy agents only" if other else "")
