"""MaskablePPO's policies under their short names."""

from proximo.networks.maskable import (
    MaskableActorCriticCnnPolicy,
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from proximo.networks.maskable import MaskableActorCriticCnnPolicy as CnnPolicy
from proximo.networks.maskable import MaskableActorCriticPolicy as MlpPolicy
from proximo.networks.maskable import MaskableMultiInputActorCriticPolicy as MultiInputPolicy

__all__ = [
    "CnnPolicy",
    "MaskableActorCriticCnnPolicy",
    "MaskableActorCriticPolicy",
    "MaskableMultiInputActorCriticPolicy",
    "MlpPolicy",
    "MultiInputPolicy",
]
