"""The network that Hsuanwu's learners have over an encoder: one hidden layer that policy and values share."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from proximo.files.encoding import register_class
from proximo.functional.spaces import Space
from proximo.networks.encoders import BaseFeaturesExtractor
from proximo.networks.published_encoders import BaseEncoder


class TrunkEncoder(BaseFeaturesExtractor):
    """An encoder, then LayerNorm, Tanh, a linear layer and ReLU; the encoder can be replaced."""

    divides_images = True  # the encoder does

    def __init__(
        self,
        observation_space: Space,
        encoder_class: type[BaseEncoder],
        feature_dim: int = 256,
        hidden_dim: int = 256,
        encoder_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(observation_space, hidden_dim)
        self.encoder: nn.Module = encoder_class(observation_space, feature_dim, **(encoder_kwargs or {}))
        self.trunk = nn.Sequential(
            nn.LayerNorm(feature_dim), nn.Tanh(), nn.Linear(feature_dim, hidden_dim), nn.ReLU(inplace=True)
        )

    def forward(self, observations: Tensor) -> Tensor:
        return self.trunk(self.encoder(observations))


register_class("TrunkEncoder", TrunkEncoder)
