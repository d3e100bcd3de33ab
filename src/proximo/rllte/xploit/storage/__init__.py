"""Storages of rollouts."""

from typing import Any

from proximo.errors import absent_name
from proximo.rollout.tensor_storage import DictRolloutStorage as DictRolloutStorage
from proximo.rollout.tensor_storage import VanillaRolloutStorage as VanillaRolloutStorage


def __getattr__(name: str) -> Any:
    other = name.endswith(("ReplayStorage", "DistributedStorage"))
    raise absent_name(__name__, name, ", which has storages of rollouts only" if other else "")
