"""SuperSuit's wrappers around a gymnasium environment, and its way to a vector environment of Stable-Baselines3."""

import gymnasium as gym
import supersuit as ss
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

env = ss.frame_stack_v1(gym.make("CartPole-v1"), 3)
env = ss.stable_baselines3_vec_env_v0(env, 2, multiprocessing=False)
env = VecMonitor(env)
model = PPO("MlpPolicy", env, n_steps=64, seed=0)
model.learn(256)
print("Stacked:", model.observation_space.shape, len(model.ep_info_buffer) > 0)
