"""As highway-env's example of PPO has it, with fewer steps."""

import sys

import gymnasium as gym
import highway_env  # noqa: F401, registers the environments
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

if __name__ == "__main__":
    n_cpu, batch_size = 2, 32
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 384
    env = make_vec_env("highway-fast-v0", n_envs=n_cpu, vec_env_cls=SubprocVecEnv)
    model = PPO(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": [{"pi": [256, 256], "vf": [256, 256]}]},
        n_steps=batch_size * 12 // n_cpu,
        batch_size=batch_size,
        n_epochs=10,
        learning_rate=5e-4,
        gamma=0.8,
        verbose=2,
        tensorboard_log="highway_ppo/",
    )
    model.learn(total_timesteps=steps)
    model.save("highway_ppo/model")
    env.close()

    model = PPO.load("highway_ppo/model")
    env = gym.make("highway-fast-v0", render_mode="rgb_array")
    obs, info = env.reset(seed=0)
    done = truncated = False
    total = 0.0
    while not (done or truncated):
        action, _ = model.predict(obs)
        obs, reward, done, truncated, info = env.step(action)
        env.render()
        total += reward
    print("Return:", total)
