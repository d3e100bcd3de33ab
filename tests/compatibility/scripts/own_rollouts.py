"""PPO with its own way to collect rollouts, as exploration bonuses are usually added."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.utils import obs_as_tensor


class BonusPPO(PPO):
    def collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps):
        assert self._last_obs is not None, "No previous observation was provided"
        self.policy.set_training_mode(False)
        n_steps = 0
        rollout_buffer.reset()
        callback.on_rollout_start()
        while n_steps < n_rollout_steps:
            with th.no_grad():
                actions, values, log_probs = self.policy(obs_as_tensor(self._last_obs, self.device))
            actions = actions.cpu().numpy()
            new_obs, rewards, dones, infos = env.step(actions)
            rewards = rewards + 0.5
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
            n_steps += 1
            rollout_buffer.add(
                self._last_obs, actions.reshape(-1, 1), rewards, self._last_episode_starts, values, log_probs
            )
            self._last_obs = new_obs
            self._last_episode_starts = dones
        with th.no_grad():
            values = self.policy.predict_values(obs_as_tensor(new_obs, self.device))
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True


model = BonusPPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=0)
model.learn(256)
assert model.num_timesteps == 256
assert np.all(model.rollout_buffer.rewards == 1.5)
assert len(model.ep_info_buffer) > 0
