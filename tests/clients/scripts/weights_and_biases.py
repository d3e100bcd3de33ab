"""Weights & Biases' callback, offline."""

import wandb
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from wandb.integration.sb3 import WandbCallback

run = wandb.init(project="sb3", config={"policy_type": "MlpPolicy"}, sync_tensorboard=True, mode="offline")
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 2), n_steps=64, verbose=1, tensorboard_log=f"runs/{run.id}")
model.learn(
    total_timesteps=256,
    callback=WandbCallback(gradient_save_freq=100, model_save_path="models", model_save_freq=64, verbose=2),
)
print("Configured:", wandb.config["algo"], wandb.config["n_steps"], wandb.config["gamma"])
run.finish()
