"""A2C."""

from proximo.agents.a2c import A2C
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["A2C", "GymEnv", "MaybeCallback", "Schedule"]
