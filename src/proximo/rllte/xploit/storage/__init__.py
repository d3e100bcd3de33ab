"""Storages of rollouts."""

from proximo.rllte.xploit.storage.rollout_storage import DictRolloutStorage as DictRolloutStorage
from proximo.rllte.xploit.storage.rollout_storage import VanillaRolloutStorage as VanillaRolloutStorage
