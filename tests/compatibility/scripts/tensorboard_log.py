"""TensorBoard folders numbered by run."""

import os

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from stable_baselines3 import PPO

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, tensorboard_log="./board/", seed=0)
model.learn(128, tb_log_name="first")
model.learn(64, tb_log_name="first", reset_num_timesteps=False)
model.learn(64, tb_log_name="first")
assert sorted(os.listdir("board")) == ["first_1", "first_2"]
events = EventAccumulator("board/first_1").Reload()
assert "train/loss" in events.Tags()["scalars"] and "rollout/ep_rew_mean" in events.Tags()["scalars"]
assert max(event.step for event in events.Scalars("rollout/ep_rew_mean")) == 192
