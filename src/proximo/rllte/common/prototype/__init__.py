"""The bases of rllte's classes, for your own agents, policies, encoders, storages, rewards and augmentations."""

from proximo.augmentation.base import BaseAugmentation as BaseAugmentation
from proximo.networks.published_encoders import BaseEncoder as BaseEncoder
from proximo.rllte.common.prototype.base_agent import BaseAgent as BaseAgent
from proximo.rllte.common.prototype.on_policy_agent import OnPolicyAgent as OnPolicyAgent
from proximo.rllte.xploit.policy.base import BasePolicy as BasePolicy
from proximo.rllte.xploit.storage.base import BaseStorage as BaseStorage
from proximo.rllte.xplore.distribution.base import BaseDistribution as BaseDistribution
from proximo.rllte.xplore.reward import BaseReward as BaseReward
