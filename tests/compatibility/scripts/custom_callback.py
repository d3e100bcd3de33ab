"""A callback that reads the training loop's variables and logs its own."""

import numpy as np

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Watcher(BaseCallback):
    def __init__(self, verbose: int = 0):
        super().__init__(verbose)
        self.events: list[str] = []
        self.returns: list[float] = []
        self.reward_sum = 0.0
        self.dones = 0

    def _on_training_start(self) -> None:
        self.events.append("training start")
        assert self.locals["total_timesteps"] == 256
        assert "self" in self.locals

    def _on_rollout_start(self) -> None:
        self.events.append("rollout start")

    def _on_step(self) -> bool:
        self.reward_sum += float(self.locals["rewards"].sum())
        self.dones += int(self.locals["dones"].sum())
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
        assert self.locals["new_obs"].shape == (2, 4)
        assert self.locals["actions"].shape[0] == 2
        assert tuple(self.locals["values"].shape) == (2, 1)
        assert self.training_env.num_envs == 2
        self.logger.record("custom/return", float(np.mean(self.returns or [0.0])))
        self.logger.record_mean("custom/reward", float(np.mean(self.locals["rewards"])))
        return True

    def _on_rollout_end(self) -> None:
        self.events.append("rollout end")
        assert self.model.rollout_buffer.full

    def _on_training_end(self) -> None:
        self.events.append("training end")


callback = Watcher()
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2, seed=1), n_steps=64, seed=1)
model.learn(256, callback=callback)
assert callback.events == ["training start", *["rollout start", "rollout end"] * 2, "training end"]
assert callback.n_calls == 128
assert callback.num_timesteps == 256
assert callback.reward_sum == 256.0  # CartPole gives one per step
assert callback.dones == len(callback.returns) > 0
