"""Hyperparameters that change while training, as functions and as the library's schedules."""

from typing import Callable

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule


def linear_schedule(initial_value: float) -> Callable[[float], float]:
    def func(progress_remaining: float) -> float:
        return progress_remaining * initial_value

    return func


class RatesOf(BaseCallback):
    def __init__(self):
        super().__init__()
        self.rates = []

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        self.rates.append(self.model.policy.optimizer.param_groups[0]["lr"])


rates = RatesOf()
model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, learning_rate=linear_schedule(0.001), clip_range=lambda p: 0.2 * p)
model.learn(256, callback=rates)
assert [round(rate, 8) for rate in rates.rates] == [0.001, 0.00075, 0.0005, 0.00025]
assert abs(model.clip_range(0.5) - 0.1) < 1e-9

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, learning_rate=LinearSchedule(1e-3, 1e-4, 0.5))
model.learn(128)
assert abs(model.policy.optimizer.param_groups[0]["lr"] - 1e-4) < 1e-12
