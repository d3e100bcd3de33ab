"""The library's policies over a given encoder, with rllte's choice of initial weights and distribution."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import nn

from proximo.data import Schedule
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import Distribution, SquashedDiagGaussianDistribution
from proximo.networks.encoders import BaseFeaturesExtractor, FlattenExtractor
from proximo.networks.phasic import PhasicPolicy
from proximo.networks.published_encoders import BaseEncoder, IdentityEncoder
from proximo.rllte.common.initialization import get_init_fn
from proximo.rllte.xploit.policy.distributions import adapt_distribution


class EncoderPolicy(ActorCriticPolicy):
    """Policy and value; an encoder that exists already stands in the place of the features extractor."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Schedule,
        *,
        encoder: BaseEncoder,
        distribution: Any = None,
        init_fn: str = "orthogonal",
        **kwargs: Any,
    ) -> None:
        # in a list: a module cannot hold another one before its own construction
        self._encoders: list[BaseFeaturesExtractor] = [
            FlattenExtractor(observation_space) if type(encoder) is IdentityEncoder else encoder
        ]
        self._given_distribution = adapt_distribution(distribution, action_space)
        self.init_weights = get_init_fn(init_fn)  # type: ignore[method-assign]
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            ortho_init=init_fn != "identity",
            normalize_images=False,  # the encoders divide by 255 themselves
            **kwargs,
        )
        if isinstance(self._given_distribution, SquashedDiagGaussianDistribution):
            self._squash_output = True  # actions in [−1, 1] are stretched to the bounds instead of clipped

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """The encoder itself, then copies of it: policy and value may want one each."""
        if self._encoders:
            self._first_encoder = [self._encoders.pop()]
            return self._first_encoder[0]
        return deepcopy(self._first_encoder[0])

    def _make_distribution(self) -> Distribution:
        if self._given_distribution is not None:
            return self._given_distribution
        return super()._make_distribution()


class PhasicEncoderPolicy(EncoderPolicy, PhasicPolicy):
    """Policy, value and auxiliary value."""


def head_layers(obs_shape: tuple[int, ...] | dict[str, tuple[int, ...]], hidden_dim: int) -> dict[str, list[int]]:
    """Two layers per head for vectors; none over an encoder of images or of a Dict.

    >>> head_layers((4,), 64)
    {'pi': [64, 64], 'vf': [64, 64]}
    >>> head_layers((3, 64, 64), 64)
    {'pi': [], 'vf': []}
    """
    widths = [hidden_dim, hidden_dim] if not isinstance(obs_shape, dict) and len(obs_shape) == 1 else []
    return {"pi": widths, "vf": list(widths)}


ACTIVATION = nn.Tanh
