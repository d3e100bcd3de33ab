"""Policies for masked actions."""

from __future__ import annotations

from proximo.networks.maskable import (
    MaskableActorCriticCnnPolicy,
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from proximo.sb3.common.type_aliases import PyTorchObs, Schedule

__all__ = [
    "MaskableActorCriticCnnPolicy",
    "MaskableActorCriticPolicy",
    "MaskableMultiInputActorCriticPolicy",
    "PyTorchObs",
    "Schedule",
]
