"""Policies with memory."""

from __future__ import annotations

from proximo.networks.recurrent import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
    RNNStates,
)
from proximo.sb3.common.type_aliases import Schedule

__all__ = [
    "RNNStates",
    "RecurrentActorCriticCnnPolicy",
    "RecurrentActorCriticPolicy",
    "RecurrentMultiInputActorCriticPolicy",
    "Schedule",
]
