"""Rollout buffers; one class stores masks, memory and Dict observations alike."""

from proximo.data import Minibatch
from proximo.rollout.storage import RolloutBuffer
from proximo.sb3.common.type_aliases import TensorDict as TensorDict

MaskableRolloutBuffer = RolloutBuffer
MaskableDictRolloutBuffer = RolloutBuffer
MaskableRolloutBufferSamples = Minibatch
MaskableDictRolloutBufferSamples = Minibatch
