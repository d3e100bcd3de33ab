"""Storages of rollouts."""

from typing import Any

from proximo.rllte.paths import absent
from proximo.rollout.tensor_storage import DictRolloutStorage as DictRolloutStorage
from proximo.rollout.tensor_storage import VanillaRolloutStorage as VanillaRolloutStorage


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
