"""TRPO."""

from proximo.agents.trpo import TRPO
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["TRPO", "GymEnv", "MaybeCallback", "Schedule"]
