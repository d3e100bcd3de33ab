"""Storages of rollouts."""

from __future__ import annotations

from proximo.hsuanwu.xploit.storage.vanilla_rollout_storage import VanillaRolloutStorage as VanillaRolloutStorage
