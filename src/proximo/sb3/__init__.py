"""For Stable-Baselines3's scripts: replace ``stable_baselines3`` by ``proximo.sb3`` in their imports.

The modules name what the library has under the paths that such scripts import; code is here only for what nothing
else needs.
"""

from __future__ import annotations

from typing import Any

from proximo.agents.a2c import A2C as A2C
from proximo.agents.ppo import PPO as PPO
from proximo.errors import absent_name
from proximo.sb3.common.utils import get_system_info as get_system_info

__all__ = ["A2C", "PPO", "__version__", "get_system_info"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

_ABSENT = frozenset({"DDPG", "DQN", "HER", "HerReplayBuffer", "SAC", "TD3"})


def __getattr__(name: str) -> Any:
    explanation = (
        f": Proximo is an on-policy library, which has A2C and PPO; keep `from stable_baselines3 import {name}` for it"
    )
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
