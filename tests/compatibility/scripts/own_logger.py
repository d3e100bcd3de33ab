"""A logger of one's own with chosen formats."""

import json

import pandas

from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0)
model.set_logger(configure("./tables/", ["csv", "json", "log"]))
model.learn(192)
table = pandas.read_csv("tables/progress.csv")
for column in (
    "time/fps",
    "time/iterations",
    "time/time_elapsed",
    "time/total_timesteps",
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "train/learning_rate",
    "train/entropy_loss",
    "train/policy_gradient_loss",
    "train/value_loss",
    "train/approx_kl",
    "train/clip_fraction",
    "train/loss",
    "train/explained_variance",
    "train/n_updates",
    "train/clip_range",
):
    assert column in table.columns, column
assert table["time/total_timesteps"].tolist() == [64, 128, 192]
with open("tables/progress.json") as lines:
    assert [json.loads(line)["time/iterations"] for line in lines] == [1, 2, 3]
