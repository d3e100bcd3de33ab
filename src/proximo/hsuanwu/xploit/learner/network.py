"""The network of Hsuanwu's PPG: encoder, trunk, and linear actor, critic and auxiliary critic."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from torch import Tensor, nn

from proximo.functional.schedules import ConstantSchedule
from proximo.functional.spaces import Space
from proximo.networks.encoders import BaseFeaturesExtractor
from proximo.networks.phasic import SMALL_GAIN, PhasicPolicy


class EncoderAndTrunk(BaseFeaturesExtractor):
    """All that actor and critics share; the encoder can be replaced."""

    def __init__(self, observation_space: Space, encoder: nn.Module, feature_dim: int, hidden_dim: int) -> None:
        super().__init__(observation_space, hidden_dim)
        self.encoder = encoder
        self.trunk = nn.Sequential(
            nn.LayerNorm(feature_dim), nn.Tanh(), nn.Linear(feature_dim, hidden_dim), nn.ReLU(inplace=True)
        )

    def forward(self, observations: Tensor) -> Tensor:
        return self.trunk(self.encoder(observations))


class TrunkPolicy(PhasicPolicy):
    """The paper's single network: outside the auxiliary phase the critic sends no gradients into encoder and trunk."""

    features_extractor: EncoderAndTrunk

    def __init__(
        self, observation_space: Space, action_space: Space, shared: EncoderAndTrunk, lr: float, eps: float
    ) -> None:
        self._shared = [shared]  # in a list: a module cannot hold another one before its own construction
        super().__init__(
            observation_space,
            action_space,
            ConstantSchedule(lr),
            net_arch=[],
            normalize_images=False,  # the encoders divide by 255 themselves
            optimizer_kwargs={"eps": eps},
        )

    def make_features_extractor(self) -> EncoderAndTrunk:
        return self._shared[0]

    def _initialize_orthogonally(self) -> None:
        # not the encoder, which came with weights of its own
        heads: dict[nn.Module, float] = {
            self.features_extractor.trunk: math.sqrt(2),
            self.action_net: 0.01,
            self.value_net: SMALL_GAIN,
            self.auxiliary_value_net: SMALL_GAIN,
        }
        for module, gain in heads.items():
            module.apply(partial(self.init_weights, gain=gain))

    def replace_encoder(self, encoder: nn.Module) -> None:
        """Another encoder under the same trunk and heads; the optimiser's memory begins again."""
        self.features_extractor.encoder = encoder
        options: dict[str, Any] = {"lr": self.optimizer.param_groups[0]["lr"], **self.optimizer_kwargs}
        self.optimizer = self.optimizer_class(self.parameters(), **options)
