"""A learning rate that follows the divergence of updates: ``learning_rate="kl_0.01"``."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from proximo import A2C, DAAC, PPG, PPO, TRPO, RecurrentPPO, make_vec_env
from proximo.functional.schedules import KLAdaptiveRate
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 64, "batch_size": 32, "n_epochs": 3, "seed": 0}


class Rates(BaseCallback):
    """What each update was done with, and how far it went."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[float, float]] = []

    def _on_rollout_start(self) -> None:
        found = self.logger.name_to_value
        if "train/approx_kl" in found:
            self.rows.append((found["train/learning_rate"], found["train/approx_kl"]))


def test_the_rule() -> None:
    rate = KLAdaptiveRate.from_text("learning_rate", "kl_0.01_3e-4")
    for divergence, expected in [
        (0.021, 2e-4),  # more than twice the target: two thirds
        (0.02, 2e-4),
        (0.005, 2e-4),
        (0.0049, 3e-4),  # less than half of it: half as much again
        (0.0, 3e-4),  # nothing was measured
        (math.nan, 3e-4),
    ]:
        rate.follow(divergence)
        assert rate(0.5) == pytest.approx(expected)
    for _ in range(30):
        rate.follow(1.0)
    assert rate(0.5) == 1e-5
    for _ in range(30):
        rate.follow(1e-6)
    assert rate(0.5) == 1e-2


@pytest.mark.parametrize(("algorithm", "backend"), [(PPO, "fused"), (PPO, "torch"), (PPG, "auto"), (DAAC, "auto")])
def test_every_update_follows_the_one_before(algorithm: Any, backend: str) -> None:
    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = algorithm("MlpPolicy", env, learning_rate="kl_0.002", backend=backend, **SMALL)
    rates = Rates()
    model.learn(128 * 8, callback=rates, log_interval=None)
    begin = algorithm.config_class.__dataclass_fields__["learning_rate"].default
    expected = KLAdaptiveRate(0.002, begin)
    assert len(rates.rows) == 7
    for rate, divergence in rates.rows:
        assert rate == expected(1.0)
        expected.follow(divergence)
    assert len({rate for rate, _ in rates.rows}) > 1
    if backend != "auto":
        assert model.backend.startswith(backend)


@pytest.mark.parametrize("algorithm", [PPO, RecurrentPPO])
def test_resumed_to_the_bit(algorithm: Any, tmp_path: Any) -> None:
    policy = "MlpPolicy" if algorithm is PPO else "MlpLstmPolicy"

    class SaveAt(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps == 256:
                self.model.save_checkpoint(tmp_path / "at.zip")

    env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    memory = {} if algorithm is PPO else {"policy_kwargs": {"lstm_hidden_size": 8}}
    whole = algorithm(policy, env, learning_rate="kl_1e-5_1e-3", **SMALL, **memory)
    whole.learn(768, callback=SaveAt(), log_interval=None)
    resumed = algorithm.load(tmp_path / "at.zip", env=make_vec_env("CartPole-v1", n_envs=2, seed=0))
    assert resumed.learning_rate == "kl_1e-5_1e-3"
    assert resumed.lr_schedule(1.0) != 1e-3
    resumed.resume(log_interval=None)
    assert resumed.lr_schedule(1.0) == whole.lr_schedule(1.0)
    for name, weight in whole.policy.state_dict().items():
        torch.testing.assert_close(resumed.policy.state_dict()[name], weight, rtol=0, atol=0)


def test_another_target_goes_on_from_the_rate_of_the_moment() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01", **SMALL).learn(256)
    rate = model.lr_schedule(1.0)
    model.learning_rate = "kl_0.05"
    model.configuration()
    assert model.lr_schedule == KLAdaptiveRate(0.05, rate)


def test_a_beginning_that_is_given_anew_wins(tmp_path: Any) -> None:
    """The same text goes on, in a file too; a text with another beginning begins there."""
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_1e-5_1e-3", **SMALL).learn(256)
    rate = model.lr_schedule(1.0)
    assert rate != 1e-3
    model.save(tmp_path / "model.zip")
    assert PPO.load(tmp_path / "model.zip", learning_rate="kl_1e-5_1e-3").lr_schedule(1.0) == rate
    assert PPO.load(tmp_path / "model.zip", learning_rate="kl_0.01").lr_schedule(1.0) == rate
    loaded = PPO.load(tmp_path / "model.zip", learning_rate="kl_0.01_1e-5")
    assert loaded.lr_schedule(1.0) == 1e-5
    loaded.save(tmp_path / "loaded.zip")
    assert PPO.load(tmp_path / "loaded.zip").lr_schedule(1.0) == 1e-5
    model.learning_rate = "kl_0.01_1e-5"
    model.configuration()
    assert model.lr_schedule == KLAdaptiveRate(0.01, 1e-5)


class OwnTrain(PPO):
    def train(self) -> None:
        self._update_learning_rate(self.policy.optimizer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_"), "expected a number, a function"),
        (lambda: PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_-1"), "expected a number, a function"),
        (lambda: PPO("MlpPolicy", "CartPole-v1", learning_rate="3e-4"), "is the text '3e-4'"),
        (lambda: PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01_1.0"), "begins with 1.0"),
        (lambda: A2C("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01"), "is 'kl_0.01'.* is for PPO, RecurrentPPO"),
        (lambda: TRPO("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01"), "is 'kl_0.01'.* PPG and DAAC$"),
        (
            lambda: PPO("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01", n_epochs=1, n_steps=64, batch_size=64),
            "one gradient step measures no divergence",
        ),
        (lambda: OwnTrain("MlpPolicy", "CartPole-v1", learning_rate="kl_0.01"), "OwnTrain overrides train"),
    ],
)
def test_what_cannot_follow_is_refused(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
