"""A2C."""

from proximo.agents.a2c import A2C
from proximo.other_libraries import names_from
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["A2C", "GymEnv", "MaybeCallback", "Schedule"]

_ALSO = ("common.buffers", "common.on_policy_algorithm", "common.policies", "common.utils")
__getattr__ = names_from(__name__, {}, _ALSO)
