"""Storages of rollouts."""

from __future__ import annotations

from proximo.rllte.xploit.storage.rollout_storage import DictRolloutStorage as DictRolloutStorage
from proximo.rllte.xploit.storage.rollout_storage import VanillaRolloutStorage as VanillaRolloutStorage
