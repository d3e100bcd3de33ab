"""Monitor files, read and drawn."""

import os

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

from stable_baselines3 import PPO
from stable_baselines3.common import results_plotter
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.results_plotter import load_results, plot_results, ts2xy

log_dir = "monitor/"
os.makedirs(log_dir, exist_ok=True)
env = Monitor(gym.make("CartPole-v1"), log_dir)
model = PPO("MlpPolicy", env, n_steps=128, seed=0)
model.learn(512)
env.close()
frame = load_results(log_dir)
x, y = ts2xy(frame, "timesteps")
assert len(x) == len(y) == len(env.get_episode_rewards()) > 5
assert np.all(np.diff(x) > 0) and x[-1] <= 512
assert np.array_equal(y, frame.l.values)  # CartPole: one reward per step
plot_results([log_dir], 512, results_plotter.X_TIMESTEPS, "PPO CartPole")
assert plt.gcf().axes[0].get_title() == "PPO CartPole"
plt.close("all")
