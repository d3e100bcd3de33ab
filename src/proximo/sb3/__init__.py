"""The door for Stable-Baselines3's scripts: replace ``stable_baselines3`` by ``proximo.sb3`` in their imports.

Every module here only names things of the house under the paths that such scripts import.
"""

from __future__ import annotations

from typing import Any

from proximo.agents.a2c import A2C as A2C
from proximo.agents.ppo import PPO as PPO
from proximo.training.utilities import get_system_info as get_system_info

__all__ = ["A2C", "PPO", "__version__", "get_system_info"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

_ABSENT = frozenset({"DDPG", "DQN", "HER", "HerReplayBuffer", "SAC", "TD3"})


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        # an AttributeError would be replaced by Python's own, wordless ImportError
        raise ImportError(
            f"{name} is not in proximo.sb3: Proximo is an on-policy library, which has A2C and PPO; "
            f"keep `from stable_baselines3 import {name}` for it"
        )
    raise AttributeError(f"module 'proximo.sb3' has no attribute {name!r}")
