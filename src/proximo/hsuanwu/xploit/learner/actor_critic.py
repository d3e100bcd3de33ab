"""What Hsuanwu's learners call ``ac``: their network without its encoder."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from proximo.networks.distributions import CategoricalDistribution


class ActorCritic(nn.Module):
    """The network without its encoder, which Hsuanwu calls ``ac``: it reads encoded observations [batch, feature]."""

    def __init__(self, network: Any) -> None:
        """Arguments:
        network: The policy, whose features extractor is a TrunkEncoder.
        """
        super().__init__()
        self._network = [network]  # in a list: its parameters are held by the parts
        self.trunk, self.actor, self.critic = network.features_extractor.trunk, network.action_net, network.value_net

    def _distribution(self, latent: Tensor) -> Any:
        return self._network[0]._get_action_dist_from_latent(latent)

    def get_value(self, obs: Tensor) -> Tensor:
        """[batch, 1]"""
        return self.critic(self.trunk(obs))

    def get_action(self, obs: Tensor) -> Tensor:
        """The likeliest actions."""
        likeliest: Tensor = self._distribution(self.trunk(obs)).mode()
        return likeliest

    def get_action_and_value(self, obs: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions, those given or sampled; values [batch, 1], log-probabilities [batch, 1] and the mean entropy."""
        latent = self.trunk(obs)
        distribution = self._distribution(latent)
        chosen = distribution.sample() if actions is None else actions
        flat = chosen.flatten() if isinstance(distribution, CategoricalDistribution) else chosen
        log_probs: Tensor = distribution.log_prob(flat)
        return chosen, self.critic(latent), log_probs.unsqueeze(1), distribution.entropy().mean()


class ActorAuxiliaryCritic(ActorCritic):
    """With PPG's auxiliary value on the same trunk."""

    def __init__(self, network: Any) -> None:
        """Arguments:
        network: The policy, a phasic one.
        """
        super().__init__(network)
        self.aux_critic = network.auxiliary_value_net

    def get_probs_and_aux_value(self, obs: Tensor) -> tuple[Any, Tensor, Tensor]:
        """The distribution of the actions, values and auxiliary values, [batch, 1] each."""
        latent = self.trunk(obs)
        return self._distribution(latent), self.critic(latent.detach()), self.aux_critic(latent)

    def get_logits(self, obs: Tensor) -> Any:
        """The distribution of the actions as torch's own, whose ``logits`` Discrete ones have."""
        return self._distribution(self.trunk(obs)).distribution
