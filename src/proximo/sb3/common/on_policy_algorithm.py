"""The base of on-policy algorithms."""

from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["GymEnv", "MaybeCallback", "OnPolicyAlgorithm", "Schedule"]
