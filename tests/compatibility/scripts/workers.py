"""Environments in worker processes, each with its own seed."""

import gymnasium as gym

from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import SubprocVecEnv, VecMonitor


def make_env(env_id: str, rank: int, seed: int = 0):
    def _init():
        env = Monitor(gym.make(env_id))
        env.reset(seed=seed + rank)
        return env

    set_random_seed(seed)
    return _init


if __name__ == "__main__":
    vec_env = VecMonitor(SubprocVecEnv([make_env("CartPole-v1", index) for index in range(2)]))
    assert vec_env.get_attr("spec")[0].id == "CartPole-v1"
    assert vec_env.env_is_wrapped(Monitor) == [True, True]
    model = PPO("MlpPolicy", vec_env, n_steps=64, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128
    obs = vec_env.reset()
    action, _ = model.predict(obs)
    obs, rewards, dones, infos = vec_env.step(action)
    assert obs.shape == (2, 4) and rewards.tolist() == [1.0, 1.0] and len(infos) == 2
    vec_env.close()
