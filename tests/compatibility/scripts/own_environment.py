"""An environment of one's own: checked, vectorised, trained, with success rates in the log."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure


class GoLeft(gym.Env):
    metadata = {"render_modes": ["ansi"]}

    def __init__(self, grid_size=6, render_mode=None):
        super().__init__()
        self.grid_size = grid_size
        self.render_mode = render_mode
        self.position = grid_size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(low=0, high=grid_size, shape=(1,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.grid_size - 1
        return np.array([self.position], dtype=np.float32), {}

    def step(self, action):
        self.position = int(np.clip(self.position + (1 if action == 1 else -1), 0, self.grid_size))
        done = self.position == 0
        observation = np.array([self.position], dtype=np.float32)
        return observation, 1.0 if done else -0.1, done, False, {"is_success": done}

    def render(self):
        return "." * self.position + "x"


check_env(GoLeft(), warn=True)
vec_env = make_vec_env(GoLeft, n_envs=2, env_kwargs=dict(grid_size=5), seed=0)
model = PPO("MlpPolicy", vec_env, n_steps=64, learning_rate=3e-3, seed=0)
logger = configure("log", ["csv"])
model.set_logger(logger)
model.learn(2048)
obs = vec_env.reset()
for _ in range(4):
    action, _ = model.predict(obs, deterministic=True)
    obs, reward, done, info = vec_env.step(action)
assert done.all() and reward.tolist() == [1.0, 1.0]
assert info[0]["terminal_observation"].tolist() == [0.0]
assert vec_env.get_attr("grid_size") == [5, 5]
assert "rollout/success_rate" in open("log/progress.csv").readline()
