"""Rollout buffers; one class stores plain and Dict observations."""

from proximo.rollout.storage import RolloutBuffer
from proximo.rollout.storage import RolloutBuffer as BaseBuffer
from proximo.rollout.storage import RolloutBuffer as DictRolloutBuffer

__all__ = ["BaseBuffer", "DictRolloutBuffer", "RolloutBuffer"]
