"""Policies around an encoder and a distribution that exist already, as rllte's agents put them together."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

from torch import nn

from proximo.data import Schedule
from proximo.functional.spaces import Space
from proximo.networks import published_encoders as published
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import Distribution, SquashedDiagGaussianDistribution
from proximo.networks.distributions.adapted import adapt_distribution
from proximo.networks.encoders import BaseFeaturesExtractor, FlattenExtractor
from proximo.networks.initialization import get_init_fn
from proximo.networks.published_encoders import BaseEncoder, IdentityEncoder


class Given(ActorCriticPolicy):
    """The encoder stands in the place of the features extractor; where policy and value want one each, a copy too."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
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
        super().__init__(observation_space, action_space, lr_schedule, ortho_init=init_fn != "identity", **kwargs)
        if isinstance(self._given_distribution, SquashedDiagGaussianDistribution):
            self._squash_output = True  # actions in [−1, 1] are stretched to the bounds instead of clipped

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """The encoder itself, then copies of it."""
        if self._encoders:
            self._first_encoder = [self._encoders.pop()]
            return self._first_encoder[0]
        return deepcopy(self._first_encoder[0])

    def _make_distribution(self) -> Distribution:
        return self._given_distribution or super()._make_distribution()


@cache
def given_class(policy_class: type[ActorCriticPolicy]) -> type[Given]:
    """A policy class whose encoder is given."""
    return type(f"Given{policy_class.__name__}", (Given, policy_class), {"__doc__": policy_class.__doc__})


def _first_layer_width(encoder: Any) -> int:
    width: int = encoder.trunk[0].out_features
    return width


# constructor arguments beside feature_dim, by which a file can build the encoder again
ARGUMENTS: dict[type[BaseEncoder], dict[str, Callable[[Any], Any]]] = {
    published.EspeholtResidualEncoder: {"net_arch": lambda encoder: list(encoder.net_arch)},
    published.MnihCnnEncoder: {},
    published.PathakCnnEncoder: {},
    published.RaffinCombinedEncoder: {"cnn_output_dim": lambda encoder: encoder.cnn_output_dim},
    published.TassaCnnEncoder: {},
    published.VanillaMlpEncoder: {"hidden_dim": _first_layer_width},
}


def describe_encoder(encoder: nn.Module) -> dict[str, Any]:
    """Arguments of a policy that make such an encoder; of a user's own class only the name is known."""
    if type(encoder) is IdentityEncoder:
        return {"features_extractor_class": FlattenExtractor}
    others = next((ARGUMENTS[kind] for kind in type(encoder).__mro__ if kind in ARGUMENTS), None)
    if others is None:
        return {"features_extractor_class": type(encoder)}
    arguments = {"feature_dim": encoder.feature_dim, **{name: read(encoder) for name, read in others.items()}}
    return {"features_extractor_class": type(encoder), "features_extractor_kwargs": arguments}
