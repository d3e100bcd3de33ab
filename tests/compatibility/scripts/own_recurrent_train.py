"""A training method of one's own for a policy with memory, and a buffer filled by hand."""

import numpy as np
import torch as th

from sb3_contrib import RecurrentPPO
from sb3_contrib.ppo_recurrent import MlpLstmPolicy
from sb3_contrib.common.recurrent.buffers import RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.env_util import make_vec_env


class HandmadeRecurrentPPO(RecurrentPPO):
    def train(self) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip_range = self.clip_range(self._current_progress_remaining)
        for epoch in range(self.n_epochs):
            for number, data in enumerate(self.rollout_buffer.get(self.batch_size)):
                mask = data.mask > 1e-8
                values, log_prob, entropy = self.policy.evaluate_actions(
                    data.observations, data.actions.long().flatten(), data.lstm_states, data.episode_starts
                )
                ratio = th.exp(log_prob - data.old_log_prob)
                if epoch == number == 0:  # nothing has been learned from these steps yet
                    assert th.allclose(ratio[mask], th.ones(()), atol=1e-4)
                    assert th.allclose(values.flatten()[mask], data.old_values[mask], atol=1e-4)
                advantages = (data.advantages - data.advantages[mask].mean()) / (data.advantages[mask].std() + 1e-8)
                clipped = th.clamp(ratio, 1 - clip_range, 1 + clip_range)
                policy_loss = -th.min(advantages * ratio, advantages * clipped)[mask].mean()
                value_loss = ((data.returns - values.flatten()) ** 2)[mask].mean()
                loss = policy_loss + self.vf_coef * value_loss - 0.01 * entropy[mask].mean()
                self.policy.optimizer.zero_grad()
                loss.backward()
                th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
        self._n_updates += self.n_epochs


small = dict(lstm_hidden_size=16)
env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
model = HandmadeRecurrentPPO(
    "MlpLstmPolicy", env, n_steps=64, batch_size=32, n_epochs=3, learning_rate=2e-3, policy_kwargs=small, seed=1
)
weights = {name: value.clone() for name, value in model.policy.state_dict().items()}
model.learn(1280)
assert all(not th.equal(value, weights[name]) for name, value in model.policy.state_dict().items())
assert model._n_updates == 10 * 3

policy, steps = model.policy, 24
lstm = policy.lstm_actor
shape = (steps, lstm.num_layers, 2, lstm.hidden_size)
buffer = RecurrentRolloutBuffer(
    steps, env.observation_space, env.action_space, shape, "cpu", gae_lambda=0.95, gamma=0.99, n_envs=2
)
zero = tuple(th.zeros(shape[1:]) for _ in range(2))
states, starts, obs = RNNStates(zero, zero), np.ones(2, dtype=bool), env.reset()
for step in range(steps):
    with th.no_grad():
        actions, values, log_probs, after = policy(th.as_tensor(obs), states, th.tensor(starts, dtype=th.float32))
    new_obs, rewards, dones, infos = env.step(actions.numpy())
    if step % 7 == 6:  # a shorter episode than usual
        new_obs, dones = env.reset(), np.ones(2, dtype=bool)
    buffer.add(obs, actions.numpy().reshape(2, 1), rewards, starts, values, log_probs, lstm_states=states)
    obs, starts, states = new_obs, dones, after
buffer.compute_returns_and_advantage(th.zeros(2), starts)
assert buffer.hidden_states_pi.shape == shape
seen = 0
for data in buffer.get(12):
    mask = data.mask > 1e-8
    values, log_prob, _ = policy.evaluate_actions(
        data.observations, data.actions.long().flatten(), data.lstm_states, data.episode_starts
    )
    assert th.allclose(values.flatten()[mask], data.old_values[mask], atol=1e-5)
    assert th.allclose(log_prob[mask], data.old_log_prob[mask], atol=1e-5)
    seen += int(mask.sum())
assert seen == 2 * steps

remembered = []
model.learn(64, callback=lambda locals_, globals_: remembered.append(locals_["lstm_states"].pi[0].clone()) is None)
assert remembered[0].shape == (1, 2, 16)
assert not th.equal(remembered[0], remembered[1])


class HandmadePolicy(MlpLstmPolicy):
    """Calls what sb3-contrib's own forward() calls."""

    def forward(self, obs, lstm_states, episode_starts, deterministic=False):
        assert episode_starts.dtype == th.float32
        features = self.extract_features(obs)
        latent_pi, pi = self._process_sequence(features, lstm_states.pi, episode_starts, self.lstm_actor)
        latent_vf, vf = self._process_sequence(features, lstm_states.vf, episode_starts, self.lstm_critic)
        latent_pi, latent_vf = self.mlp_extractor.forward_actor(latent_pi), self.mlp_extractor.forward_critic(latent_vf)
        distribution = self._get_action_dist_from_latent(latent_pi)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, self.value_net(latent_vf), distribution.log_prob(actions), RNNStates(pi, vf)


model = RecurrentPPO(HandmadePolicy, env, n_steps=33, batch_size=16, n_epochs=1, policy_kwargs=small)
model.learn(132)
assert model._last_lstm_states.pi[0].shape == (1, 2, 16)
