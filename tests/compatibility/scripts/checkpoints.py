"""Checkpoints while training, with the normaliser's statistics."""

import os

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0))
checkpoint_callback = CheckpointCallback(
    save_freq=64, save_path="./checkpoints/", name_prefix="rl_model", save_vecnormalize=True
)
model = PPO("MlpPolicy", env, n_steps=64, seed=0)
model.learn(256, callback=checkpoint_callback)
names = sorted(os.listdir("checkpoints"))
assert "rl_model_128_steps.zip" in names and "rl_model_256_steps.zip" in names, names
assert any("vecnormalize_128_steps" in name for name in names), names
early = PPO.load("./checkpoints/rl_model_128_steps.zip", env=env)
assert early.num_timesteps == 128
early.learn(128, reset_num_timesteps=False)
assert early.num_timesteps == 256
