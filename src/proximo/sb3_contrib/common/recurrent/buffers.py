"""Rollout buffers with memory; one class stores plain and Dict observations."""

from __future__ import annotations

from proximo.data import RNNStates
from proximo.rollout.recurrent_storage import RecurrentRolloutBuffer, create_sequencers, pad, pad_and_flatten
from proximo.rollout.recurrent_storage import RecurrentRolloutBuffer as RecurrentDictRolloutBuffer
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
    "create_sequencers",
    "pad",
    "pad_and_flatten",
]
