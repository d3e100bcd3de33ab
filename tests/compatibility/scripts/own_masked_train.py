"""A training method of one's own over masked actions, and a buffer filled by hand."""

import numpy as np
import torch as th

from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer


class HandmadeMaskablePPO(MaskablePPO):
    def train(self) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for epoch in range(self.n_epochs):
            for number, data in enumerate(self.rollout_buffer.get(self.batch_size)):
                values, log_prob, entropy = self.policy.evaluate_actions(
                    data.observations, data.actions.long().flatten(), action_masks=data.action_masks
                )
                ratio = th.exp(log_prob - data.old_log_prob)
                if epoch == number == 0:
                    assert th.allclose(ratio, th.ones(()), atol=1e-4)
                advantages = (data.advantages - data.advantages.mean()) / (data.advantages.std() + 1e-8)
                policy_loss = -th.min(advantages * ratio, advantages * th.clamp(ratio, 0.8, 1.2)).mean()
                loss = policy_loss + self.vf_coef * ((data.returns - values.flatten()) ** 2).mean()
                self.policy.optimizer.zero_grad()
                loss.backward()
                self.policy.optimizer.step()
        self._n_updates += self.n_epochs


env = InvalidActionEnvDiscrete(dim=8, n_invalid_actions=4)
model = HandmadeMaskablePPO("MlpPolicy", env, n_steps=256, gamma=0.4, learning_rate=1e-3, seed=0).learn(2048)
late = np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-5:]])
assert late > 60, late  # chance gets 25 of 100 among the four allowed actions

buffer = MaskableRolloutBuffer(4, env.observation_space, env.action_space, "cpu", n_envs=2)
allowed = np.arange(8) % 2 == 0
for step in range(4):
    masks = np.stack([allowed, ~allowed]) if step else None
    number = th.full((2,), float(step))
    buffer.add(np.full((2, 1), step), np.full((2, 1), step), np.ones(2), np.zeros(2), number, number, action_masks=masks)
buffer.compute_returns_and_advantage(th.zeros(2), np.ones(2))
data = next(buffer.get(8))
for step, mask in zip(data.old_values, data.action_masks):
    assert mask.shape == (8,)
    assert mask.sum() == (8 if step == 0 else 4)


class Watching(MaskableRolloutBuffer):
    """Counts the forbidden actions of all steps."""

    forbidden = 0

    def add(self, *args, action_masks=None, **kwargs) -> None:
        Watching.forbidden += int((action_masks == 0).sum())
        super().add(*args, action_masks=action_masks, **kwargs)


seen = []
model = MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, rollout_buffer_class=Watching, seed=0)
model.learn(32, callback=lambda locals_, globals_: seen.append(locals_["action_masks"]) is None)
assert Watching.forbidden == 4 * 32
assert [np.sum(masks) for masks in seen] == [4] * 32
