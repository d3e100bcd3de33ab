"""The library's networks behind rllte's calls."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.data import TensorObservation
from proximo.functional.schedules import ConstantSchedule
from proximo.networks.actor_critic import POLICY_ALIASES, ActorCriticPolicy
from proximo.networks.distributions.adapted import adapt_distribution
from proximo.networks.distributions.batches import BaseDistribution
from proximo.networks.distributions.divergence import parameter_rows
from proximo.networks.given import describe_encoder, given_class
from proximo.networks.published_encoders import BaseEncoder
from proximo.rllte.common.prototype.base_policy import BasePolicy


class NetworkPolicy(BasePolicy):
    """A policy whose ``network`` is the library's, made by :meth:`freeze`; backends and learners work on that."""

    network: Any
    twins: ClassVar[Any] = {policy: policy for policy in POLICY_ALIASES.values()}
    # the policy as a model file names it
    policy_class: type[ActorCriticPolicy]
    policy_kwargs: dict[str, Any]

    def freeze(self, encoder: BaseEncoder, dist: Any = None) -> None:
        options = dict(self.opt_kwargs)
        rate = ConstantSchedule(options.pop("lr", 1e-3))  # torch's own default
        shape = self.obs_shape
        layers = [self.hidden_dim] * 2 if not isinstance(shape, dict) and len(shape) == 1 else []
        self.policy_kwargs = {
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": nn.Tanh,
            "optimizer_class": self.opt_class,
            "optimizer_kwargs": options,
        }
        stock = self._stock_class()
        made = given_class(stock)
        self.network = made(
            self.observation_space,
            self.action_space,
            rate,
            encoder=encoder,
            distribution=dist,
            init_fn=self.init_method,
            **self.policy_kwargs,
        )
        self.policy_kwargs |= describe_encoder(encoder)
        self.policy_class = stock if adapt_distribution(dist, self.action_space) is None else made
        self.dist = dist
        self._optimizers = {"opt": self.network.optimizer}

    def _stock_class(self) -> type[ActorCriticPolicy]:
        if isinstance(self.observation_space, spaces.Dict):
            name = "MultiInputPolicy"
        else:
            name = "CnnPolicy" if isinstance(self.obs_shape, tuple) and len(self.obs_shape) == 3 else "MlpPolicy"
        found: type[ActorCriticPolicy] = self.twins[POLICY_ALIASES[name]]
        return found

    @property
    def encoder(self) -> nn.Module:
        """The encoder, once the agent has given it."""
        found: nn.Module = self.network.features_extractor
        return found

    def forward(self, obs: TensorObservation, training: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        if training:
            actions, values, log_probs = self.network(obs)
            return actions, {"values": values, "log_probs": log_probs}
        likeliest = self.network.get_distribution(obs).mode()
        bounded = self.network.bound_actions(likeliest.detach().cpu().numpy().reshape(-1, *self.action_shape))
        return torch.as_tensor(bounded, device=likeliest.device), {}

    def get_value(self, obs: TensorObservation) -> Tensor:
        values: Tensor = self.network.predict_values(obs)
        return values

    def get_policy_outputs(self, obs: TensorObservation) -> Tensor:
        """What the distribution is made of, [batch, numbers]: logits, or means and then deviations."""
        distribution = self.network.get_distribution(obs)
        if isinstance(self.action_space, spaces.Box):
            means = distribution.mean_actions
            return torch.cat([means, distribution.log_std.exp().expand_as(means)], dim=1)
        return parameter_rows(distribution)

    def compile_network(self) -> None:
        """Let ``torch.compile`` have the encoder and the heads' layers, which is where the time goes."""
        network = self.network
        for module in {network.pi_features_extractor, network.vf_features_extractor}:
            module.compile()
        network.mlp_extractor.policy_net.compile()
        network.mlp_extractor.value_net.compile()

    def batch_distribution(self, outputs: Tensor) -> BaseDistribution:
        """The distribution that :meth:`get_policy_outputs` describes, as an object of torch."""
        match self.action_space:
            case spaces.Box():
                made: BaseDistribution = self.dist(*outputs.chunk(2, dim=1))
            case spaces.MultiDiscrete():
                made = self.dist(outputs.split(list(self.nvec or ()), dim=1))
            case _:
                made = self.dist(outputs)
        return made
