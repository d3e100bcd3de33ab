"""The base of on-policy algorithms."""

from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.other_libraries import names_from
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

_ALSO = ("common.buffers", "common.callbacks", "common.policies", "common.utils", "common.base_class", "common.vec_env")
__getattr__ = names_from(__name__, {}, _ALSO)

__all__ = ["GymEnv", "MaybeCallback", "OnPolicyAlgorithm", "Schedule"]
