"""Train with normalised observations and rewards, then test with the saved statistics."""

import gymnasium as gym
import numpy as np

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

vec_env = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
vec_env = VecNormalize(vec_env, norm_obs=True, norm_reward=True, clip_obs=10.0)
model = PPO("MlpPolicy", vec_env, n_steps=256, seed=0)
model.learn(512)
assert model.get_vec_normalize_env() is vec_env
model.save("ppo_pendulum")
vec_env.save("vec_normalize.pkl")
mean, count = vec_env.obs_rms.mean.copy(), vec_env.obs_rms.count

vec_env = VecNormalize.load("vec_normalize.pkl", make_vec_env("Pendulum-v1", n_envs=1))
vec_env.training = False
vec_env.norm_reward = False
assert np.array_equal(vec_env.obs_rms.mean, mean) and vec_env.obs_rms.count == count
model = PPO.load("ppo_pendulum", env=vec_env)
obs = vec_env.reset()
for _ in range(10):
    action, _ = model.predict(obs, deterministic=True)
    obs, reward, done, info = vec_env.step(action)
assert vec_env.obs_rms.count == count  # testing leaves the statistics alone
raw = vec_env.get_original_obs()
assert np.allclose(vec_env.normalize_obs(raw), obs, atol=1e-5)
assert np.allclose(reward, vec_env.get_original_reward())
