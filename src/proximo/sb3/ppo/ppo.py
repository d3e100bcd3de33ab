"""PPO."""

from __future__ import annotations

from proximo.agents.ppo import PPO
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["PPO", "GymEnv", "MaybeCallback", "Schedule"]
