"""Behaviour cloning with one's own optimiser on the policy's weights, then reinforcement learning from there."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, learning_rate=1e-5, n_epochs=1, seed=0)
rng = np.random.default_rng(0)
observations = th.tensor(rng.normal(size=(512, 4)) * [1.0, 1.0, 0.1, 1.0], dtype=th.float32)
expert = (observations[:, 2] + 0.3 * observations[:, 3] + 0.05 * observations[:, 1] > 0).long()
optimizer = th.optim.Adam(model.policy.parameters(), lr=3e-3)
for _ in range(150):
    _, log_prob, _ = model.policy.evaluate_actions(observations, expert)
    loss = -log_prob.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
cloned, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
model.learn(128)
kept, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
assert cloned > 100 and kept > 100, (cloned, kept)
