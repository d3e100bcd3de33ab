"""A2C as its documentation shows it: several environments, RMSprop in TensorFlow's form, gSDE."""

import numpy as np

from stable_baselines3 import A2C
from stable_baselines3.a2c import MlpPolicy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

vec_env = make_vec_env("CartPole-v1", n_envs=4, seed=1)
model = A2C(MlpPolicy, vec_env, seed=1, verbose=0)
model.learn(total_timesteps=12_000)
assert model.num_timesteps == 12_000
assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 40
model.save("a2c_cartpole")
del model
model = A2C.load("a2c_cartpole")
obs = vec_env.reset()
for _ in range(20):
    action, _states = model.predict(obs)
    obs, rewards, dones, info = vec_env.step(action)
assert rewards.tolist() == [1.0] * 4

policy_kwargs = dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=dict(eps=1e-5))
older = A2C("MlpPolicy", "CartPole-v1", policy_kwargs=policy_kwargs, seed=0).learn(50)
assert isinstance(older.policy.optimizer, RMSpropTFLike)

exploring = A2C("MlpPolicy", "Pendulum-v1", use_sde=True, sde_sample_freq=4, normalize_advantage=True, seed=0)
exploring.learn(100)
assert exploring.predict(np.zeros(3))[0].shape == (1,)
