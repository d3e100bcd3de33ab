"""A rollout buffer with its own advantages: plain discounted returns minus the value."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer


class ReturnsBuffer(RolloutBuffer):
    adds = 0

    def reset(self) -> None:
        self.bonus = np.zeros((self.buffer_size, self.n_envs), dtype=np.float32)
        super().reset()

    def add(self, *args, **kwargs) -> None:
        self.bonus[self.pos] = 1.0
        ReturnsBuffer.adds += 1
        super().add(*args, **kwargs)

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: np.ndarray) -> None:
        running = last_values.clone().cpu().numpy().flatten() * (1.0 - dones)
        returns = np.zeros_like(self.rewards)
        for step in reversed(range(self.buffer_size)):
            if step < self.buffer_size - 1:
                running = running * (1.0 - self.episode_starts[step + 1])
            running = self.rewards[step] + self.gamma * running
            returns[step] = running
        self.returns = returns
        self.advantages = self.returns - self.values


model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, rollout_buffer_class=ReturnsBuffer)
model.learn(128)
assert ReturnsBuffer.adds == 128
assert model.rollout_buffer.bonus.sum() == 64
batch = next(model.rollout_buffer.get(batch_size=None))
assert th.allclose(batch.returns, batch.advantages + batch.old_values, atol=1e-5)
