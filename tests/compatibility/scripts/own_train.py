"""PPO with a training method of one's own: the clipped loss without its entropy term, written out by hand."""

import numpy as np
import torch as th
from torch.nn import functional as F

from stable_baselines3 import PPO
from stable_baselines3.common.utils import explained_variance


class HandmadePPO(PPO):
    def train(self) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)
        losses = []
        for _ in range(self.n_epochs):
            for rollout_data in self.rollout_buffer.get(self.batch_size):
                actions = rollout_data.actions.long().flatten()
                values, log_prob, entropy = self.policy.evaluate_actions(rollout_data.observations, actions)
                assert entropy.shape == log_prob.shape == rollout_data.old_log_prob.shape
                advantages = rollout_data.advantages
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                ratio = th.exp(log_prob - rollout_data.old_log_prob)
                clipped = th.clamp(ratio, 1 - clip_range, 1 + clip_range)
                policy_loss = -th.min(advantages * ratio, advantages * clipped).mean()
                loss = policy_loss + self.vf_coef * F.mse_loss(rollout_data.returns, values.flatten())
                self.policy.optimizer.zero_grad()
                loss.backward()
                th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
                losses.append(loss.item())
        self._n_updates += self.n_epochs
        variance = explained_variance(self.rollout_buffer.values.flatten(), self.rollout_buffer.returns.flatten())
        self.logger.record("train/explained_variance", variance)
        self.logger.record("train/loss", float(np.mean(losses)))


model = HandmadePPO("MlpPolicy", "CartPole-v1", n_steps=256, n_epochs=4, learning_rate=1e-3, seed=5)
weights = {name: value.clone() for name, value in model.policy.state_dict().items()}
model.learn(6000)
assert all(not th.equal(value, weights[name]) for name, value in model.policy.state_dict().items())
mean_return = np.mean([episode["r"] for episode in model.ep_info_buffer])
assert mean_return > 50, mean_return  # the untrained policy gets about 22
assert model._n_updates == 24 * 4
