"""Invalid actions masked out: the environment's own masks, ActionMasker, evaluation and prediction."""

import gymnasium as gym
import numpy as np

from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor

env = Monitor(InvalidActionEnvDiscrete(dim=40, n_invalid_actions=30))
callback = MaskableEvalCallback(
    Monitor(InvalidActionEnvDiscrete(dim=40, n_invalid_actions=30)), eval_freq=1024, n_eval_episodes=2, verbose=0
)
model = MaskablePPO("MlpPolicy", env, n_steps=512, gamma=0.4, seed=32, verbose=0)
beginner, _ = evaluate_policy(model, env, n_eval_episodes=5, warn=False)
unmasked, _ = evaluate_policy(model, env, n_eval_episodes=5, warn=False, use_masking=False)
assert beginner > unmasked
model.learn(3_072, callback=callback)
mean_reward, _ = evaluate_policy(model, env, n_eval_episodes=5, reward_threshold=2 * beginner, warn=False)
assert callback.best_mean_reward > 2 * beginner

model.save("ppo_mask")
model = MaskablePPO.load("ppo_mask")
obs, _ = env.reset()
for _ in range(50):
    # Retrieve current action mask
    action_masks = get_action_masks(env)
    action, _states = model.predict(obs, action_masks=action_masks)
    assert action_masks[action]
    obs, reward, terminated, truncated, info = env.step(action)


def mask_fn(env: gym.Env) -> np.ndarray:
    """Push the cart only towards the middle."""
    position = env.unwrapped.state[0]
    return np.array([position > -0.01, position < 0.01])


cartpole = ActionMasker(gym.make("CartPole-v1"), mask_fn)
assert is_masking_supported(cartpole)
assert not is_masking_supported(gym.make("CartPole-v1"))
masked = MaskablePPO(MaskableActorCriticPolicy, cartpole, n_steps=64, seed=0)
masked.learn(128)

vec_env = make_vec_env(InvalidActionEnvDiscrete, n_envs=3, env_kwargs=dict(dim=5, n_invalid_actions=4))
model = MaskablePPO("MlpPolicy", vec_env, n_steps=16, batch_size=16, seed=0).learn(48)
obs = vec_env.reset()
assert get_action_masks(vec_env).shape == (3, 5)
for _ in range(10):
    action, _ = model.predict(obs, action_masks=get_action_masks(vec_env))
    assert action.tolist() == obs.tolist()  # one action is left, the right one
    obs, rewards, dones, infos = vec_env.step(action)
    assert rewards.tolist() == [1.0] * 3
