"""Look into a policy: probabilities, values, log-probabilities, weights; save it alone."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.ppo import MlpPolicy
from stable_baselines3.common.distributions import CategoricalDistribution

model = PPO(MlpPolicy, "CartPole-v1", n_steps=64, seed=0).learn(64)
observation = np.zeros((5, 4), dtype=np.float32)
obs_tensor, _ = model.policy.obs_to_tensor(observation)
distribution = model.policy.get_distribution(obs_tensor)
assert isinstance(distribution, CategoricalDistribution)
probabilities = distribution.distribution.probs
assert probabilities.shape == (5, 2)
assert th.allclose(probabilities.sum(dim=1), th.ones(5))
action, state = model.predict(observation, deterministic=True)
assert state is None and np.array_equal(action, probabilities.argmax(dim=1).numpy())
values = model.policy.predict_values(obs_tensor)
assert values.shape == (5, 1)
actions, same_values, log_prob = model.policy(obs_tensor)
assert th.allclose(values, same_values)
assert th.allclose(log_prob, distribution.distribution.log_prob(actions))
assert model.policy.mlp_extractor.policy_net[0].weight.shape == (64, 4)

model.policy.save("policy.zip")
alone = MlpPolicy.load("policy.zip")
assert np.array_equal(alone.predict(observation, deterministic=True)[0], action)
