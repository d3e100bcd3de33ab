"""Features extractors and perceptrons."""

from __future__ import annotations

from proximo.networks.encoders import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    MlpExtractor,
    NatureCNN,
    create_mlp,
    get_actor_critic_arch,
)
from proximo.sb3.common.type_aliases import TensorDict

__all__ = [
    "BaseFeaturesExtractor",
    "CombinedExtractor",
    "FlattenExtractor",
    "MlpExtractor",
    "NatureCNN",
    "TensorDict",
    "create_mlp",
    "get_actor_critic_arch",
]
