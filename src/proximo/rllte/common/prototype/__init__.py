"""The bases of rllte's classes, for your own agents, policies, encoders, storages, rewards and augmentations."""

from typing import Any

from proximo.augmentation import BaseAugmentation as BaseAugmentation
from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.networks.published_encoders import BaseEncoder as BaseEncoder
from proximo.rllte.common.prototype.base_agent import BaseAgent as BaseAgent
from proximo.rllte.common.prototype.base_policy import BasePolicy as BasePolicy
from proximo.rllte.common.prototype.on_policy_agent import OnPolicyAgent as OnPolicyAgent
from proximo.rllte.paths import absent
from proximo.rllte.xplore.reward import BaseReward as BaseReward
from proximo.rollout.tensor_storage import BaseStorage as BaseStorage


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
