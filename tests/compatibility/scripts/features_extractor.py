"""A features extractor of one's own, given by class and arguments."""

import gymnasium as gym
import torch as th
from torch import nn

from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class Doubler(BaseFeaturesExtractor):
    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 8):
        super().__init__(observation_space, features_dim)
        self.net = nn.Sequential(nn.Linear(observation_space.shape[0], features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return 2.0 * self.net(observations)


model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    n_steps=64,
    seed=3,
    policy_kwargs=dict(
        features_extractor_class=Doubler,
        features_extractor_kwargs=dict(features_dim=16),
        net_arch=dict(pi=[32], vf=[32, 32]),
        activation_fn=nn.ReLU,
    ),
)
before = model.policy.features_extractor.net[0].weight.detach().clone()
model.learn(128)
assert model.policy.features_extractor.features_dim == 16
assert not th.equal(before, model.policy.features_extractor.net[0].weight)  # the extractor is trained too
model.save("with_extractor")
loaded = PPO.load("with_extractor", custom_objects={"policy_kwargs": model.policy_kwargs})
observation = model.get_env().reset()
assert (loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]).all()
