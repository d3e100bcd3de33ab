"""Rates and durations while somebody sets the system's clock."""

from __future__ import annotations

import time

import gymnasium
import pytest

from proximo import PPO, make_vec_env
from proximo.envs import VecMonitor
from proximo.envs.wrappers.monitor import Monitor
from proximo.training.callbacks import BaseCallback

HOUR = 3600.0


@pytest.fixture
def setting_the_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    offset, seconds, nanoseconds = [0.0], time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: seconds() + offset[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(1e9 * offset[0]))
    return offset


@pytest.mark.parametrize("hours", [-1.0, 1.0])
def test_the_speed_of_a_training_is_not_that_of_the_clock(setting_the_clock: list[float], hours: float) -> None:
    seen: dict[str, float] = {}

    class Setting(BaseCallback):
        def _on_rollout_start(self) -> None:
            setting_the_clock[0] = hours * HOUR

        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            seen.update(self.logger.name_to_value)
            seen["by start_time"] = (time.time_ns() - self.model.start_time) / 1e9

    env = make_vec_env("CartPole-v1", 1, seed=0)
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=1, seed=0)
    model.learn(512, callback=Setting())
    assert 0 <= seen["time/time_elapsed"] < HOUR / 2
    assert 0 < seen["by start_time"] < HOUR / 2
    assert seen["time/fps"] > 0
    assert all(0 <= episode["t"] < HOUR / 2 for episode in model.ep_info_buffer)


def test_the_time_of_episodes_and_of_states_goes_on(setting_the_clock: list[float]) -> None:
    single = Monitor(gymnasium.make("CartPole-v1"))
    several = VecMonitor(make_vec_env(lambda: gymnasium.make("CartPole-v1"), 1))
    setting_the_clock[0] = -HOUR
    assert 0 <= single.get_state()["seconds"] < HOUR / 2
    assert 0 <= several.own_state()["totals"]["seconds"] < HOUR / 2


def test_a_start_time_that_is_set_counts_from_there() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32)
    model.start_time = time.time_ns() - int(5e9)
    assert 5.0 <= (time.time_ns() - model.start_time) / 1e9 < HOUR
