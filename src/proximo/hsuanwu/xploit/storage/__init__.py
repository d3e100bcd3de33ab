"""Storages of rollouts."""

from proximo.hsuanwu import left_out
from proximo.hsuanwu.xploit.storage.vanilla_rollout_storage import VanillaRolloutStorage as VanillaRolloutStorage

__getattr__ = left_out(__name__)
