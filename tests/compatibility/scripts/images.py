"""Images: frames stacked, a small convolutional network, training on pixels."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage, is_vecenv_wrapped

env = make_vec_env(lambda: FakeImageEnv(screen_height=40, screen_width=40, n_channels=1, discrete=True), n_envs=2)
env = VecFrameStack(env, n_stack=4)
model = PPO("CnnPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0)
assert is_vecenv_wrapped(model.get_env(), VecTransposeImage)
assert model.observation_space.shape == (4, 40, 40)
before = model.policy.features_extractor.cnn[0].weight.detach().clone()
model.learn(32)
assert not th.equal(before, model.policy.features_extractor.cnn[0].weight)
assert model.rollout_buffer.observations.dtype == np.uint8
obs = model.get_env().reset()
assert obs.shape == (2, 4, 40, 40)
first, _ = model.predict(obs, deterministic=True)
channels_last, _ = model.predict(np.moveaxis(obs, 1, -1), deterministic=True)
assert np.array_equal(first, channels_last)
