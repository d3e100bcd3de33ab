"""sb3-extra-buffers: a rollout buffer that keeps its images compressed."""

import ale_py
import gymnasium as gym
from sb3_extra_buffers.compressed import CompressedRolloutBuffer, find_buffer_dtypes
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

gym.register_envs(ale_py)
env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=2, seed=0), n_stack=4)
dtypes = find_buffer_dtypes(env.observation_space.shape, env.observation_space.dtype, "rle")
model = PPO(
    "CnnPolicy",
    env,
    n_steps=16,
    batch_size=16,
    n_epochs=1,
    rollout_buffer_class=CompressedRolloutBuffer,
    rollout_buffer_kwargs={"dtypes": dtypes, "compression_method": "rle"},
)
model.learn(64)
print("Buffer:", model.rollout_buffer.observations.dtype, model.num_timesteps)
