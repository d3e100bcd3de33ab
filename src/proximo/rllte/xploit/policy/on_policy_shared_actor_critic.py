"""Actor and critic over one encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.data import TensorObservation
from proximo.functional.spaces import Space
from proximo.networks.distributions.batches import BaseDistribution
from proximo.networks.phasic import PHASIC_TWINS
from proximo.rllte.xploit.policy.network_policy import NetworkPolicy


class OnPolicySharedActorCritic(NetworkPolicy):
    """Actor and critic over one encoder; with ``aux_critic`` also PPG's auxiliary value on the actor's network.

    obs -> encoder -> actor -> actions; obs -> encoder -> critic -> values. ``optimizers["opt"]`` trains all of it.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        feature_dim: int,
        hidden_dim: int = 512,
        opt_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        opt_kwargs: dict[str, Any] | None = None,
        aux_critic: bool = False,
        init_fn: str = "orthogonal",
    ) -> None:
        """Arguments:
        observation_space: The space of one observation.
        action_space: The space of one action.
        feature_dim: Width of the features that the encoder gives.
        hidden_dim: Width of the hidden layers.
        opt_class: The optimiser's class.
        opt_kwargs: Its arguments.
        aux_critic: Whether the actor's network has PPG's auxiliary value.
        init_fn: How weights start: orthogonal, xavier_uniform, xavier_normal or identity.
        """
        super().__init__(observation_space, action_space, feature_dim, hidden_dim, opt_class, opt_kwargs, init_fn)
        self.has_aux_critic = aux_critic
        if aux_critic:
            self.twins = PHASIC_TWINS  # type: ignore[misc]

    def evaluate_actions(self, obs: TensorObservation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values [batch, 1], log-probabilities [batch] and the mean entropy of given actions."""
        values, log_probs, entropy = self.network.evaluate_actions(obs, actions.reshape(-1, *self.action_shape))
        return values, log_probs, -log_probs.mean() if entropy is None else entropy.mean()

    def get_dist_and_aux_value(self, obs: TensorObservation) -> tuple[BaseDistribution, Tensor, Tensor]:
        """Distribution, values and auxiliary values, [batch, 1] each, for PPG's auxiliary phase."""
        if not self.has_aux_critic:
            raise ValueError("the policy has no auxiliary value; make it with aux_critic=True")
        outputs = self.network.evaluate_auxiliary(obs)
        distribution = self.batch_distribution(self.get_policy_outputs(obs))
        return distribution, outputs.values.unsqueeze(1), outputs.auxiliary_values.unsqueeze(1)
