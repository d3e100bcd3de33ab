"""PPO."""

from proximo.agents.ppo import PPO
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["PPO", "GymEnv", "MaybeCallback", "Schedule"]
