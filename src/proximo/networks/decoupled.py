"""The networks of decoupled advantage actor-critic (Raileanu & Fergus 2021, https://arxiv.org/abs/2102.10330).

Policy and value share nothing, so that what the value memorises of a level does not reach the policy; beside the policy
stands an estimate of the advantage of an action, which teaches the policy's network in the value's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.files.encoding import register_class
from proximo.functional.spaces import counted_from_zero, get_flattened_obs_dim, preprocess_obs
from proximo.networks.actor_critic import (
    POLICY_ALIASES,
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)


class ActorOutputs(NamedTuple):
    """What the policy's part says of given actions."""

    advantages: Tensor  # [batch]
    log_prob: Tensor  # [batch]
    entropy: Tensor | None  # [batch]


class DecoupledPolicy(ActorCriticPolicy):
    """Actor and critic with a features extractor each, and an advantage beside the actor.

    One optimiser knows all parameters; DAAC steps those of the actor or those of the critic, whose moments stay apart.
    """

    def __init__(self, *args: Any, share_features_extractor: bool = False, **kwargs: Any) -> None:
        if share_features_extractor:
            raise ValueError(
                "share_features_extractor is True, but DAAC's policy and value share nothing; leave it out"
            )
        super().__init__(*args, share_features_extractor=False, **kwargs)  # type: ignore[misc]

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        layers = self.net_arch["pi"] if isinstance(self.net_arch, dict) else self.net_arch
        widths = [self.features_dim + get_flattened_obs_dim(counted_from_zero(self.action_space)), *layers]
        hidden: list[nn.Module] = []
        for inputs, outputs in zip(widths, layers, strict=False):
            hidden += [nn.Linear(inputs, outputs), self.activation_fn()]
        self.advantage_net = nn.Sequential(*hidden, nn.Linear(widths[-1], 1))

    def _initialize_orthogonally(self) -> None:
        super()._initialize_orthogonally()
        self.advantage_net.apply(partial(self.init_weights, gain=1.0))

    def critic_parameters(self) -> list[nn.Parameter]:
        """Those that the value is made of."""
        parts = (self.vf_features_extractor, self.mlp_extractor.value_net, self.value_net)
        return [parameter for part in parts for parameter in part.parameters()]

    def actor_parameters(self) -> list[nn.Parameter]:
        """All others: those of the policy and of the advantage."""
        known = {id(parameter) for parameter in self.critic_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in known]

    def evaluate_actor(
        self, obs: TensorObservation, actions: Tensor, action_masks: Tensor | None = None
    ) -> ActorOutputs:
        """Advantage, log-probability and entropy of given actions, without asking the critic."""
        features = BasePolicy.extract_features(self, obs, self.pi_features_extractor)
        distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(features), action_masks)
        encoded = preprocess_obs(actions, counted_from_zero(self.action_space), normalize_images=False)
        flat = cast("Tensor", encoded).flatten(1).to(features.dtype)
        advantages = self.advantage_net(torch.cat([features, flat], dim=1)).squeeze(1)
        return ActorOutputs(advantages, distribution.log_prob(actions), distribution.entropy())


class DecoupledCnnPolicy(DecoupledPolicy, ActorCriticCnnPolicy):
    """The same for images."""


class DecoupledMultiInputPolicy(DecoupledPolicy, MultiInputActorCriticPolicy):
    """The same for Dict observations."""


DECOUPLED_POLICY_ALIASES: Mapping[str, type[DecoupledPolicy]] = {
    "MlpPolicy": DecoupledPolicy,
    "CnnPolicy": DecoupledCnnPolicy,
    "MultiInputPolicy": DecoupledMultiInputPolicy,
}
# the decoupled twin of each stock policy
DECOUPLED_TWINS: Mapping[type[ActorCriticPolicy], type[DecoupledPolicy]] = {
    stock: DECOUPLED_POLICY_ALIASES[name] for name, stock in POLICY_ALIASES.items()
}

for _class in DECOUPLED_POLICY_ALIASES.values():
    register_class(_class.__name__, _class)
