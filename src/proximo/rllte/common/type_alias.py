"""Names of types that rllte's signatures have."""

from __future__ import annotations

from typing import Any

from proximo.data import TensorObservation as GymObs
from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.rllte.common.prototype.base_policy import BasePolicy as BasePolicy
from proximo.rllte.env.utils import Gymnasium2Torch as Gymnasium2Torch
from proximo.rllte.paths import absent
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
    raise absent(__name__, name)
