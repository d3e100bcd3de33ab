"""TRPO, and an observation that tells the time."""

from sb3_contrib import TRPO
from sb3_contrib.common.wrappers import TimeFeatureWrapper
from stable_baselines3.common.env_util import make_vec_env

env = make_vec_env("Pendulum-v1", n_envs=2, seed=0, wrapper_class=TimeFeatureWrapper, wrapper_kwargs={"max_steps": 200})
model = TRPO("MlpPolicy", env, n_steps=128, gamma=0.9, seed=0, verbose=0)
model.learn(total_timesteps=512, log_interval=4)
model.save("trpo_pendulum")
del model
model = TRPO.load("trpo_pendulum")
obs = env.reset()
assert obs.shape == (2, 4)
assert obs[:, -1].tolist() == [1.0, 1.0]
action, _states = model.predict(obs, deterministic=True)
assert action.shape == (2, 1)
