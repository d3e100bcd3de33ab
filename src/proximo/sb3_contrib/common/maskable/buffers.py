"""Rollout buffers; one class stores masks, memory and Dict observations alike."""

from proximo.data import Minibatch as MaskableDictRolloutBufferSamples
from proximo.data import Minibatch as MaskableRolloutBufferSamples
from proximo.rollout.storage import RolloutBuffer as MaskableDictRolloutBuffer
from proximo.rollout.storage import RolloutBuffer as MaskableRolloutBuffer
from proximo.sb3.common.type_aliases import TensorDict

__all__ = [
    "MaskableDictRolloutBuffer",
    "MaskableDictRolloutBufferSamples",
    "MaskableRolloutBuffer",
    "MaskableRolloutBufferSamples",
    "TensorDict",
]
