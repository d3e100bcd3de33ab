"""The networks of phasic policy gradient (Cobbe et al. 2020): a policy, its value, and an auxiliary value.

In the policy phase the value is trained without touching what the policy sees; in the auxiliary phase a second value
head on the policy's own latent, and the value itself, teach the policy's network what returns look like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.files.encoding import register_class
from proximo.networks.actor_critic import (
    POLICY_ALIASES,
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from proximo.networks.distributions import Distribution

SMALL_GAIN = 0.1  # values near zero at the start: a large wrong value would be what the policy's network learns first


class AuxiliaryOutputs(NamedTuple):
    """What the auxiliary phase trains."""

    distribution: Distribution  # of the policy, one row per observation
    values: Tensor  # [batch]
    auxiliary_values: Tensor  # [batch]: from the policy's latent


class PhasicPolicy(ActorCriticPolicy):
    """An actor-critic whose value leaves the policy's network alone, except in the auxiliary phase.

    ``share_features_extractor=True`` is the paper's single network: outside the auxiliary phase the value sees the
    features without sending gradients back. ``False`` is its dual form: policy and value have an extractor each.
    """

    def __init__(
        self,
        *args: Any,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._auxiliary_phase = False
        if optimizer_kwargs is None and optimizer_class is torch.optim.Adam:
            optimizer_kwargs = {"eps": 1e-8}  # as published; PPO's 1e-5 slows the small gradients of this algorithm
        super().__init__(*args, optimizer_class=optimizer_class, optimizer_kwargs=optimizer_kwargs, **kwargs)  # type: ignore[misc]

    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.auxiliary_value_net = nn.Linear(self.mlp_extractor.latent_dim_pi, 1)

    def _initialize_orthogonally(self) -> None:
        super()._initialize_orthogonally()
        for head in (self.value_net, self.auxiliary_value_net):
            head.apply(partial(self.init_weights, gain=SMALL_GAIN))

    @contextmanager
    def auxiliary_phase(self) -> Iterator[None]:
        """Within it, the value's gradient reaches shared features."""
        self._auxiliary_phase = True
        try:
            yield
        finally:
            self._auxiliary_phase = False

    def _latents(self, obs: TensorObservation) -> tuple[Tensor, Tensor]:
        features = self.extract_features(obs)
        policy_features, value_features = (features, features) if self.share_features_extractor else features
        return (
            self.mlp_extractor.forward_actor(policy_features),
            self.mlp_extractor.forward_critic(self._seen_by_value(value_features)),
        )

    def _seen_by_value(self, features: Tensor) -> Tensor:
        shared = self.share_features_extractor and not self._auxiliary_phase
        return features.detach() if shared else features

    def predict_values(self, obs: TensorObservation) -> Tensor:
        """[batch, 1]"""
        features = BasePolicy.extract_features(self, obs, self.vf_features_extractor)
        return self.value_net(self.mlp_extractor.forward_critic(self._seen_by_value(features)))

    def evaluate_auxiliary(self, obs: TensorObservation, action_masks: Tensor | None = None) -> AuxiliaryOutputs:
        """Policy, value and auxiliary value of [batch, …] observations."""
        latent_pi, latent_vf = self._latents(obs)
        distribution = self._get_action_dist_from_latent(latent_pi, action_masks)
        return AuxiliaryOutputs(
            distribution, self.value_net(latent_vf).squeeze(1), self.auxiliary_value_net(latent_pi).squeeze(1)
        )


class PhasicCnnPolicy(PhasicPolicy, ActorCriticCnnPolicy):
    """The same for images: NatureCNN, or another as ``features_extractor_class`` (ImpalaCNN is the paper's)."""


class PhasicMultiInputPolicy(PhasicPolicy, MultiInputActorCriticPolicy):
    """The same for Dict observations."""


PHASIC_POLICY_ALIASES: Mapping[str, type[PhasicPolicy]] = {
    "MlpPolicy": PhasicPolicy,
    "CnnPolicy": PhasicCnnPolicy,
    "MultiInputPolicy": PhasicMultiInputPolicy,
}
# the phasic twin of each stock policy
PHASIC_TWINS: Mapping[type[ActorCriticPolicy], type[PhasicPolicy]] = {
    stock: PHASIC_POLICY_ALIASES[name] for name, stock in POLICY_ALIASES.items()
}

for _class in PHASIC_POLICY_ALIASES.values():
    register_class(_class.__name__, _class)
