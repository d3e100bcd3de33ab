"""Rollout buffers; one class stores plain and Dict observations."""

from proximo.other_libraries import names_from
from proximo.rollout.storage import RolloutBuffer
from proximo.rollout.storage import RolloutBuffer as BaseBuffer
from proximo.rollout.storage import RolloutBuffer as DictRolloutBuffer

__all__ = ["BaseBuffer", "DictRolloutBuffer", "RolloutBuffer"]

_OFF_POLICY = ("DictReplayBuffer", "NStepReplayBuffer", "ReplayBuffer")
_ALSO = ("common.type_aliases", "common.preprocessing", "common.utils", "common.vec_env")
__getattr__ = names_from(__name__, dict.fromkeys(_OFF_POLICY, "stable_baselines3.common.buffers"), _ALSO)
