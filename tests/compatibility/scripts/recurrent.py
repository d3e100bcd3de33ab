"""A policy with memory: training, and the prediction loop that carries the states."""

import numpy as np

from sb3_contrib import RecurrentPPO
from sb3_contrib.ppo_recurrent import MlpLstmPolicy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
model = RecurrentPPO(
    "MlpLstmPolicy",
    env,
    n_steps=64,
    batch_size=64,
    n_epochs=2,
    policy_kwargs=dict(lstm_hidden_size=16, n_lstm_layers=1, enable_critic_lstm=True),
    seed=0,
    verbose=0,
)
model.learn(512)
assert isinstance(model.policy, MlpLstmPolicy)

vec_env = model.get_env()
mean_reward, std_reward = evaluate_policy(model, vec_env, n_eval_episodes=4, warn=False)
assert mean_reward > 5

model.save("ppo_recurrent")
del model
model = RecurrentPPO.load("ppo_recurrent")

obs = vec_env.reset()
# cell and hidden state of the LSTM
lstm_states = None
num_envs = 2
# Episode start signals are used to reset the lstm states
episode_starts = np.ones((num_envs,), dtype=bool)
first_states = None
for _ in range(60):
    action, lstm_states = model.predict(obs, state=lstm_states, episode_start=episode_starts, deterministic=True)
    first_states = first_states or lstm_states
    obs, rewards, dones, info = vec_env.step(action)
    episode_starts = dones
hidden, cell = lstm_states
assert hidden.shape == cell.shape == (1, num_envs, 16)
assert not np.allclose(hidden, first_states[0])
