"""Policies of sb3-contrib's shape for masked actions.

Every policy of the library takes masks; these differ only for MultiBinary actions, where each switch has two logits,
off and on, instead of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from proximo.data import Schedule
from proximo.files.encoding import register_class
from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.actor_critic import ActorCriticPolicy, zero_learning_rate
from proximo.networks.distributions import Distribution, MaskableBernoulliDistribution
from proximo.networks.encoders import BaseFeaturesExtractor, CombinedExtractor, NatureCNN, NetArch


class MaskableActorCriticPolicy(ActorCriticPolicy):
    """An actor-critic whose MultiBinary actions are pairs of logits."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        lr_schedule: Schedule = zero_learning_rate,
        net_arch: NetArch | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **noise: Any,  # what sb3-contrib's policies lack: continuous actions have no masks
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            activation_fn,
            ortho_init,
            features_extractor_class=features_extractor_class,
            features_extractor_kwargs=features_extractor_kwargs,
            share_features_extractor=share_features_extractor,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            **noise,
        )

    def _make_distribution(self) -> Distribution:
        if isinstance(self.action_space, spaces.MultiBinary):
            return MaskableBernoulliDistribution(get_action_dim(self.action_space))
        return super()._make_distribution()


class MaskableActorCriticCnnPolicy(MaskableActorCriticPolicy):
    """The same for images."""

    usual_features_extractor = NatureCNN


class MaskableMultiInputActorCriticPolicy(MaskableActorCriticPolicy):
    """The same for Dict observations."""

    usual_features_extractor = CombinedExtractor


MASKABLE_POLICY_ALIASES: Mapping[str, type[ActorCriticPolicy]] = {
    "MlpPolicy": MaskableActorCriticPolicy,
    "CnnPolicy": MaskableActorCriticCnnPolicy,
    "MultiInputPolicy": MaskableMultiInputActorCriticPolicy,
}

for _class in MASKABLE_POLICY_ALIASES.values():
    register_class(_class.__name__, _class)
