"""A policy with its own network between features and heads."""

from typing import Callable

import torch as th
from gymnasium import spaces
from torch import nn

from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy


class TwoTowers(nn.Module):
    def __init__(self, feature_dim: int, last_layer_dim_pi: int = 24, last_layer_dim_vf: int = 40):
        super().__init__()
        self.latent_dim_pi = last_layer_dim_pi
        self.latent_dim_vf = last_layer_dim_vf
        self.actor_tower = nn.Sequential(nn.Linear(feature_dim, last_layer_dim_pi), nn.LayerNorm(last_layer_dim_pi))
        self.critic_tower = nn.Sequential(nn.Linear(feature_dim, last_layer_dim_vf), nn.SiLU())

    def forward(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: th.Tensor) -> th.Tensor:
        return self.actor_tower(features)

    def forward_critic(self, features: th.Tensor) -> th.Tensor:
        return self.critic_tower(features)


class TwoTowerPolicy(ActorCriticPolicy):
    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        *args,
        **kwargs,
    ):
        kwargs["ortho_init"] = False
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = TwoTowers(self.features_dim)


model = PPO(TwoTowerPolicy, "CartPole-v1", n_steps=64, seed=0)
before = model.policy.mlp_extractor.actor_tower[1].weight.detach().clone()
model.learn(64)
assert model.policy.action_net.in_features == 24
assert model.policy.value_net.in_features == 40
assert not th.equal(before, model.policy.mlp_extractor.actor_tower[1].weight)
