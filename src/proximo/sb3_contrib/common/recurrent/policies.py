"""Policies with memory."""

from __future__ import annotations

from proximo.data import RNNStates
from proximo.networks.recurrent import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
from proximo.sb3.common.type_aliases import Schedule

__all__ = [
    "RNNStates",
    "RecurrentActorCriticCnnPolicy",
    "RecurrentActorCriticPolicy",
    "RecurrentMultiInputActorCriticPolicy",
    "Schedule",
]
