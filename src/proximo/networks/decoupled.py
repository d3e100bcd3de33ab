"""The networks of decoupled advantage actor-critic (Raileanu & Fergus 2021, https://arxiv.org/abs/2102.10330).

Policy and value share nothing, so that what the value memorises of a level does not reach the policy; beside the policy
stands an estimate of the advantage of an action, which teaches the policy's network in the value's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.files.encoding import register_class
from proximo.functional.actions import leaves
from proximo.functional.spaces import counted_from_zero, get_action_dim, get_flattened_obs_dim, preprocess_obs
from proximo.networks.actor_critic import (
    POLICY_ALIASES,
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from proximo.networks.encoders import create_mlp


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
        layers = self.net_arch.get("pi", []) if isinstance(self.net_arch, dict) else self.net_arch
        columns = sum(get_flattened_obs_dim(counted_from_zero(leaf)) for leaf in leaves(self.action_space))
        self.advantage_net = nn.Sequential(*create_mlp(self.features_dim + columns, 1, layers, self.activation_fn))

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
        inputs = [features, *(part.to(features.dtype) for part in self._encoded(actions))]
        advantages = self.advantage_net(torch.cat(inputs, dim=1)).squeeze(1)
        return ActorOutputs(advantages, distribution.log_prob(actions), distribution.entropy())

    def _encoded(self, actions: Tensor) -> Iterator[Tensor]:
        """Each part of the actions [batch, columns] as a network reads it: choices one-hot."""
        parts = list(leaves(self.action_space))
        is_hybrid = isinstance(self.action_space, spaces.Dict | spaces.Tuple)
        pieces = actions.split([get_action_dim(part) for part in parts], dim=1) if is_hybrid else (actions,)
        for part, piece in zip(parts, pieces, strict=True):
            encoded = preprocess_obs(piece, counted_from_zero(part), normalize_images=False)
            yield cast("Tensor", encoded).flatten(1)


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
