"""Policies."""

from proximo.networks.actor_critic import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from proximo.networks.actor_critic import BasePolicy as BaseModel
from proximo.sb3.common.type_aliases import PyTorchObs, Schedule

__all__ = [
    "ActorCriticCnnPolicy",
    "ActorCriticPolicy",
    "BaseModel",
    "BasePolicy",
    "MultiInputActorCriticPolicy",
    "PyTorchObs",
    "Schedule",
]
