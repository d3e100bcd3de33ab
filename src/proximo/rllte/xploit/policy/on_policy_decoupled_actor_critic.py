"""Actor and critic with an encoder each."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from proximo.data import TensorObservation
from proximo.networks.decoupled import DECOUPLED_TWINS
from proximo.networks.published_encoders import BaseEncoder
from proximo.rllte.xploit.policy.network_policy import NetworkPolicy


class OnPolicyDecoupledActorCritic(NetworkPolicy):
    """Actor and critic with an encoder each, and an estimate of an action's advantage beside the actor.

    obs -> actor encoder -> actor -> actions; obs -> critic encoder -> critic -> values. ``optimizers["actor_opt"]``
    trains actor and advantage (``actor_params``), ``optimizers["critic_opt"]`` the critic (``critic_params``).
    """

    twins = DECOUPLED_TWINS

    def freeze(self, encoder: BaseEncoder, dist: Any = None) -> None:
        super().freeze(encoder, dist)
        parts = {"actor_opt": self.actor_params, "critic_opt": self.critic_params}
        self._optimizers = {name: self.opt_class(part, **self.opt_kwargs) for name, part in parts.items()}

    def share_optimizer(self) -> None:
        """Both names stand for the network's own optimiser, which the library's learners step."""
        self._optimizers = dict.fromkeys(self._optimizers, self.network.optimizer)

    @property
    def actor_params(self) -> list[Any]:
        """Parameters of the policy."""
        found: list[Any] = self.network.actor_parameters()
        return found

    @property
    def critic_params(self) -> list[Any]:
        """Parameters of the value."""
        found: list[Any] = self.network.critic_parameters()
        return found

    def evaluate_actions(self, obs: TensorObservation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Advantages [batch, 1], values [batch, 1], log-probabilities [batch] and the mean entropy."""
        found = self.network.evaluate_actor(obs, actions.reshape(-1, *self.action_shape))
        entropy = -found.log_prob.mean() if found.entropy is None else found.entropy.mean()
        return found.advantages.unsqueeze(1), self.get_value(obs), found.log_prob, entropy
