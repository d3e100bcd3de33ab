"""rllte's on-policy policies: the library's networks behind rllte's calls."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.functional.schedules import ConstantSchedule
from proximo.functional.spaces import Space, counted_from_zero, preprocess_obs
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.distributions import Distribution
from proximo.networks.published_encoders import BaseEncoder
from proximo.rllte.xploit.policy.base import BasePolicy
from proximo.rllte.xploit.policy.network import ACTIVATION, EncoderPolicy, PhasicEncoderPolicy, head_layers


class NetworkPolicy(BasePolicy):
    """A policy whose ``network`` is the library's, made by :meth:`freeze`; backends and learners work on that."""

    network: ActorCriticPolicy

    def freeze(self, encoder: BaseEncoder, dist: Any = None) -> None:
        self.network = self._make_network(
            self._network_class(),
            encoder=encoder,
            distribution=dist,
            init_fn=self.init_method,
            net_arch=head_layers(self.obs_shape, self.hidden_dim),
            activation_fn=ACTIVATION,
        )
        self.dist = dist
        self._optimizers = {"opt": self.network.optimizer}

    def _network_class(self) -> type[ActorCriticPolicy]:
        return EncoderPolicy

    def _make_network(self, network_class: type[ActorCriticPolicy], **options: Any) -> ActorCriticPolicy:
        optimizer = dict(self.opt_kwargs)
        rate = ConstantSchedule(optimizer.pop("lr", 1e-3))  # torch's own default
        return network_class(
            self.observation_space,
            self.action_space,
            rate,
            optimizer_class=self.opt_class,
            optimizer_kwargs=optimizer,
            **options,
        )

    @property
    def encoder(self) -> nn.Module:
        return self.network.features_extractor

    def forward(self, obs: TensorObservation, training: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        if training:
            actions, values, log_probs = self.network(obs)
            return actions, {"values": values, "log_probs": log_probs}
        likeliest = self.network.get_distribution(obs).mode()
        bounded = self.network.bound_actions(likeliest.detach().cpu().numpy().reshape(-1, *self.action_shape))
        return torch.as_tensor(bounded, device=likeliest.device), {}

    def get_value(self, obs: TensorObservation) -> Tensor:
        return self.network.predict_values(obs)

    def get_distribution(self, obs: TensorObservation) -> Distribution:
        """The library's distribution of the actions."""
        return self.network.get_distribution(obs)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        return self.network.predict(observation, state, episode_start, deterministic)

    def compile_network(self) -> None:
        """Let ``torch.compile`` have the encoder and the heads' layers, which is where the time goes."""
        for module in {self.network.pi_features_extractor, self.network.vf_features_extractor}:
            module.compile()
        self.network.mlp_extractor.policy_net.compile()
        self.network.mlp_extractor.value_net.compile()

    def _evaluate(self, obs: TensorObservation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values [batch, 1], log-probabilities [batch] and the mean entropy."""
        values, log_probs, entropy = self.network.evaluate_actions(obs, actions.reshape(-1, *self.action_shape))
        return values, log_probs, -log_probs.mean() if entropy is None else entropy.mean()


class OnPolicySharedActorCritic(NetworkPolicy):
    """Actor and critic over one encoder; with ``aux_critic`` also PPG's auxiliary value on the actor's network.

    ``optimizers["opt"]`` trains all of it.
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
        super().__init__(observation_space, action_space, feature_dim, hidden_dim, opt_class, opt_kwargs, init_fn)
        self.has_aux_critic = aux_critic

    def _network_class(self) -> type[ActorCriticPolicy]:
        return PhasicEncoderPolicy if self.has_aux_critic else EncoderPolicy

    def evaluate_actions(self, obs: TensorObservation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values [batch, 1], log-probabilities [batch] and the mean entropy of given actions."""
        return self._evaluate(obs, actions)

    def get_dist_and_aux_value(self, obs: TensorObservation) -> tuple[Distribution, Tensor, Tensor]:
        """Distribution, values and auxiliary values, [batch, 1] each, for PPG's auxiliary phase."""
        if not self.has_aux_critic:
            raise ValueError("the policy has no auxiliary value; make it with aux_critic=True")
        outputs = cast("PhasicEncoderPolicy", self.network).evaluate_auxiliary(obs)
        return outputs.distribution, outputs.values.unsqueeze(1), outputs.auxiliary_values.unsqueeze(1)


class OnPolicyDecoupledActorCritic(NetworkPolicy):
    """Actor and critic with an encoder each, and an estimate of an action's advantage beside the actor.

    ``optimizers["actor_opt"]`` trains actor and advantage, ``optimizers["critic_opt"]`` the critic, as DAAC does.
    """

    def freeze(self, encoder: BaseEncoder, dist: Any = None) -> None:
        super().freeze(encoder, dist)
        layers = head_layers(self.obs_shape, self.hidden_dim)["pi"]
        widths = [self.network.features_dim + self.policy_action_dim, *layers]
        hidden = [part for sizes in zip(widths, layers, strict=False) for part in (nn.Linear(*sizes), ACTIVATION())]
        self.gae = nn.Sequential(*hidden, nn.Linear(widths[-1], 1))
        self.gae.apply(self.init_fn)
        network = self.network
        critic = [network.vf_features_extractor, network.mlp_extractor.value_net, network.value_net]
        critic_parameters = list(chain.from_iterable(module.parameters() for module in critic))
        known = {id(parameter) for parameter in critic_parameters}
        actor_parameters = [part for part in self.parameters() if id(part) not in known]
        self._optimizers = {
            "actor_opt": self.opt_class(actor_parameters, **self.opt_kwargs),
            "critic_opt": self.opt_class(critic_parameters, **self.opt_kwargs),
        }

    def _make_network(self, network_class: type[ActorCriticPolicy], **options: Any) -> ActorCriticPolicy:
        return super()._make_network(network_class, share_features_extractor=False, **options)

    def evaluate_actions(self, obs: TensorObservation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Advantages [batch, 1], values [batch, 1], log-probabilities [batch] and the mean entropy."""
        values, log_probs, entropy = self._evaluate(obs, actions)
        features, _ = self.network.extract_features(obs)
        encoded = preprocess_obs(actions, counted_from_zero(self.action_space), normalize_images=False)
        advantages = self.gae(torch.cat([features, cast("Tensor", encoded).flatten(1)], dim=1))
        return advantages, values, log_probs, entropy
