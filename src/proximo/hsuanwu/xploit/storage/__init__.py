"""Storages of rollouts."""

from proximo.hsuanwu.xploit.storage.vanilla_rollout_storage import VanillaRolloutStorage as VanillaRolloutStorage
