"""Encoders: the published ones, which take a space in each of Hsuanwu's forms and start with orthogonal weights."""

from __future__ import annotations

from functools import partial
from typing import Any

from proximo.files.encoding import register_class_alias
from proximo.hsuanwu.described_spaces import SpaceLike, to_observation_space
from proximo.networks import published_encoders as published
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.published_encoders import BaseEncoder as BaseEncoder


class _FromDescribedSpace(BaseEncoder):
    def __init__(self, observation_space: SpaceLike, *args: Any, **kwargs: Any) -> None:
        """Arguments:
        observation_space: A gymnasium space, or a mapping with the key shape; the rest is the encoder's own.
        """
        super().__init__(to_observation_space(observation_space), *args, **kwargs)
        self.apply(partial(ActorCriticPolicy.init_weights, gain=self.init_gain))


class EspeholtResidualEncoder(_FromDescribedSpace, published.EspeholtResidualEncoder):
    """IMPALA's residual network, the usual encoder of PPG: ``(observation_space, feature_dim=256, net_arch)``."""


class MnihCnnEncoder(_FromDescribedSpace, published.MnihCnnEncoder):
    """The network of DQN: ``(observation_space, feature_dim=512)``."""


class PathakCnnEncoder(_FromDescribedSpace, published.PathakCnnEncoder):
    """The network of the intrinsic curiosity module, for small images too: ``(observation_space, feature_dim=512)``."""


class TassaCnnEncoder(_FromDescribedSpace, published.TassaCnnEncoder):
    """The network of the DeepMind Control Suite: ``(observation_space, feature_dim=50)``."""


class VanillaMlpEncoder(_FromDescribedSpace, published.VanillaMlpEncoder):
    """Two Tanh layers for vectors: ``(observation_space, feature_dim=64, hidden_dim=64)``."""


class IdentityEncoder(_FromDescribedSpace, published.IdentityEncoder):
    """Vectors as they are: ``(observation_space, feature_dim)``."""


for _class in _FromDescribedSpace.__subclasses__():
    register_class_alias(_class, getattr(published, _class.__name__))
