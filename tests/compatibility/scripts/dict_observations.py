"""Dict observations of images and vectors."""

import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.envs import SimpleMultiObsEnv
from stable_baselines3.common.evaluation import evaluate_policy

env = SimpleMultiObsEnv(random_start=False)
model = PPO("MultiInputPolicy", env, n_steps=32, batch_size=16, n_epochs=2, seed=0, verbose=0)
before = {name: value.clone() for name, value in model.policy.state_dict().items()}
model.learn(total_timesteps=64)
assert all(not th.equal(value, before[name]) for name, value in model.policy.state_dict().items())
obs, _ = env.reset()
action, _ = model.predict(obs)
assert env.action_space.contains(int(action))
mean_reward, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=1)
assert isinstance(mean_reward, float)
