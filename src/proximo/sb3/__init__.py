"""For Stable-Baselines3's scripts: replace ``stable_baselines3`` by ``proximo.sb3`` in their imports.

The modules name what the library has under the paths that such scripts import; code is here only for what nothing
else needs. Off-policy algorithms and their modules are those of Stable-Baselines3 itself, where it is installed.
"""

from __future__ import annotations

from proximo.agents.a2c import A2C as A2C
from proximo.agents.ppo import PPO as PPO
from proximo.other_libraries import answer_missing_modules, names_from
from proximo.sb3.common.utils import get_system_info as get_system_info

__all__ = ["A2C", "PPO", "__version__", "get_system_info"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

answer_missing_modules("proximo.sb3", "stable_baselines3")
_OFF_POLICY = {name: f"stable_baselines3.{name.lower()}" for name in ("DDPG", "DQN", "SAC", "TD3")}
_MODULES = dict.fromkeys(("ddpg", "dqn", "her", "sac", "td3"), "stable_baselines3")
__getattr__ = names_from(__name__, {**_OFF_POLICY, **_MODULES, "HerReplayBuffer": "stable_baselines3.her"})
