"""Rollout buffers; one class stores masks, memory and Dict observations alike."""

from __future__ import annotations

from proximo.networks.recurrent import RNNStates
from proximo.rollout.storage import RolloutBuffer as RecurrentDictRolloutBuffer
from proximo.rollout.storage import RolloutBuffer as RecurrentRolloutBuffer
from proximo.sb3_contrib.common.recurrent.type_aliases import (
    RecurrentDictRolloutBufferSamples,
    RecurrentRolloutBufferSamples,
)

__all__ = [
    "RNNStates",
    "RecurrentDictRolloutBuffer",
    "RecurrentDictRolloutBufferSamples",
    "RecurrentRolloutBuffer",
    "RecurrentRolloutBufferSamples",
]
