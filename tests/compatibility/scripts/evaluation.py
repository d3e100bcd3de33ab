"""Evaluation while training, stopping at a score, and the best model afterwards."""

import os

import numpy as np

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import (
    EvalCallback,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

stop_callback = StopTrainingOnRewardThreshold(reward_threshold=60, verbose=0)
eval_callback = EvalCallback(
    make_vec_env("CartPole-v1", n_envs=2, seed=100),
    best_model_save_path="./logs/",
    log_path="./logs/",
    eval_freq=256,
    n_eval_episodes=6,
    callback_on_new_best=stop_callback,
    callback_after_eval=StopTrainingOnNoModelImprovement(max_no_improvement_evals=1000),
    deterministic=True,
    render=False,
    verbose=0,
)
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4, seed=2), n_steps=128, learning_rate=1e-3, seed=2)
model.learn(200_000, callback=eval_callback)
assert model.num_timesteps < 200_000
assert eval_callback.best_mean_reward >= 60
data = np.load(os.path.join("logs", "evaluations.npz"))
assert data["results"].shape == (len(data["timesteps"]), 6)
assert list(data["timesteps"]) == [1024 * (index + 1) for index in range(len(data["timesteps"]))]
assert abs(data["results"][-1].mean() - eval_callback.best_mean_reward) < 1e-6
best = PPO.load("./logs/best_model")
mean_reward, std_reward = evaluate_policy(best, make_vec_env("CartPole-v1", n_envs=1, seed=7), n_eval_episodes=5)
assert mean_reward > 30 and std_reward >= 0
rewards, lengths = evaluate_policy(best, best.get_env() or make_vec_env("CartPole-v1"), 3, return_episode_rewards=True)
assert rewards == [float(length) for length in lengths]
