"""PopArt: values in units of the returns, and a last layer that keeps its meaning when the units change."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from proximo import A2C, DAAC, PPG, PPO, TRPO, RecurrentPPO, make_vec_env
from proximo.agents.scales import preserve_outputs
from proximo.envs.testing.environments import EndlessEnv
from proximo.errors import ModelFileError
from proximo.exploration import RND
from proximo.functional.return_moments import HORIZON, ReturnMoments
from proximo.persistence.initial_weights import start_from
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 32, "seed": 0, "normalize_returns": True}


class Scaled(gym.RewardWrapper[Any, Any]):
    """Rewards times a thousand, and five hundred on top."""

    def reward(self, reward: Any) -> float:
        return 1000.0 * float(reward) + 500.0


def scaled_cart_pole() -> Any:
    return Scaled(gym.make("CartPole-v1"))


def scaled_pendulum() -> Any:
    return Scaled(gym.make("Pendulum-v1"))


def restored_value(model: Any, observation: Any) -> float:
    with torch.no_grad():
        values = model.policy.predict_values(torch.as_tensor(observation)).numpy()
    return float(model.return_moments.restore(values)[0, 0])


def test_the_head_says_the_same_in_other_units() -> None:
    """σ'·V' + μ' = σ·V + μ, within the rounding of float32 relative to the size of the values."""
    head, latents = torch.nn.Linear(7, 1), torch.randn(50, 7)
    old, new = ReturnMoments(3.0, 4.0, 10.0), ReturnMoments(-250.0, 1e6, 20.0)
    before = old.deviation * head(latents).double() + old.mean
    preserve_outputs(head, old, new)
    after = new.deviation * head(latents).double() + new.mean
    torch.testing.assert_close(after, before, rtol=0, atol=8 * np.finfo(np.float32).eps * new.deviation)


def test_moments_by_hand() -> None:
    samples = [np.array([1.0, 3.0]), np.array([5.0, 5.0, 11.0])]
    moments = ReturnMoments()
    for batch in samples:
        moments = moments.updated(float(batch.mean()), float(batch.var()), len(batch))
    everything = np.concatenate(samples)
    assert moments.mean == pytest.approx(everything.mean())
    assert moments.variance == pytest.approx(everything.var())
    assert moments.count == 5
    # beyond the horizon they forget: the weight of a batch of half the horizon is one half
    full = ReturnMoments(0.0, 1.0, HORIZON).updated(10.0, 1.0, HORIZON / 2)
    assert full.mean == pytest.approx(5.0)
    assert full.variance == pytest.approx(0.5 * (1.0 + 0.5 * 100.0) + 0.5 * 1.0)
    assert full.updated(7.0, 2.0, 2 * HORIZON).numbers() == (7.0, 2.0, 2 * HORIZON)
    assert full.updated(7.0, 2.0, 0) is full


class Watch(BaseCallback):
    """Compares what the value means before and after each change of the units, and looks at the rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.observations = np.linspace(-0.1, 0.1, 20, dtype=np.float32).reshape(5, 4)
        self.differences: list[float] = []
        self.sizes: list[float] = []

    def meant(self) -> Any:
        with torch.no_grad():
            values = self.model.policy.predict_values(torch.as_tensor(self.observations)).numpy()
        return self.model.return_moments.restore(values)

    def _on_rollout_start(self) -> None:
        self.before = self.meant()

    def _on_rollout_end(self) -> None:
        self.differences.append(float(np.abs(self.meant() - self.before).max()))
        self.sizes.append(self.model.return_moments.deviation)
        buffer = self.model.rollout_buffer
        assert np.abs(buffer.returns).max() < 30.0
        np.testing.assert_allclose(buffer.returns - buffer.values, buffer.advantages, atol=1e-4)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_outputs_are_preserved_while_training(backend: str) -> None:
    watch = Watch()
    env = make_vec_env(scaled_cart_pole, n_envs=2, seed=0)
    model = PPO("MlpPolicy", env, backend=backend, batch_size=32, n_epochs=2, **SMALL)  # type: ignore[arg-type]
    model.learn(320, callback=watch, log_interval=None)
    assert model.backend.startswith(backend)
    assert len(watch.differences) == 5
    for difference, size in zip(watch.differences, watch.sizes, strict=True):
        assert difference < 32 * np.finfo(np.float32).eps * size
    assert model.return_moments.deviation > 1000
    logged = model.logger.name_to_value
    assert logged["train/return_std"] == model.return_moments.deviation
    assert logged["train/return_mean"] == model.return_moments.mean


def test_both_backends_train_alike() -> None:
    moments = []
    for backend in ("fused", "torch"):
        env = make_vec_env(scaled_pendulum, n_envs=2, seed=0)
        model = PPO("MlpPolicy", env, backend=backend, batch_size=32, n_epochs=2, **SMALL).learn(256)  # type: ignore[arg-type]
        moments.append(model.return_moments.numbers())
    np.testing.assert_allclose(moments[0], moments[1], rtol=1e-4)


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_an_endless_reward_of_a_thousand_is_worth_two_thousand(algorithm: Any) -> None:
    class Large(EndlessEnv):
        def step(self, action: Any) -> Any:
            observation, reward, *others = super().step(action)
            return observation, 1000.0 * float(reward), *others

    arguments: dict[str, Any] = {"batch_size": 64, "n_epochs": 4} if algorithm is PPO else {}
    env = make_vec_env(lambda: Large(5), n_envs=16, seed=0)
    model = algorithm(
        "MlpPolicy", env, n_steps=16, gamma=0.5, learning_rate=3e-3, seed=0, normalize_returns=True, **arguments
    )
    model.learn(12_000)
    assert restored_value(model, np.zeros((1, 1), np.float32)) == pytest.approx(
        2000.0, rel=0.03 if algorithm is PPO else 0.06
    )


@pytest.mark.parametrize("algorithm", [PPO, A2C, PPG, DAAC, TRPO, RecurrentPPO])
def test_saved_and_resumed_to_the_bit(algorithm: Any, tmp_path: Any) -> None:
    arguments: dict[str, Any] = {} if algorithm is A2C else {"batch_size": 32}
    if algorithm is PPG:
        arguments["rollouts_per_phase"] = 3  # the checkpoint is within a phase
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    if algorithm is RecurrentPPO:
        arguments |= {"policy_kwargs": {"lstm_hidden_size": 8}, "n_epochs": 2}

    def made() -> Any:
        return algorithm(policy, make_vec_env("CartPole-v1", n_envs=2, seed=0), **SMALL, **arguments)

    class SaveAt(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps == 256:
                self.model.save_checkpoint(tmp_path / "at.zip")

    whole = made().learn(448, callback=SaveAt(), log_interval=None)
    resumed = algorithm.load(tmp_path / "at.zip", env=make_vec_env("CartPole-v1", n_envs=2, seed=0))
    assert resumed.return_moments.count == 256
    resumed.resume(log_interval=None)
    assert resumed.return_moments == whole.return_moments
    for name, weight in whole.policy.state_dict().items():
        torch.testing.assert_close(resumed.policy.state_dict()[name], weight, rtol=0, atol=0)


def test_switched_off_the_value_means_the_same() -> None:
    class Switch(BaseCallback):
        def _on_rollout_end(self) -> None:
            self.model.normalize_returns = self.num_timesteps < 128

    model = PPO("MlpPolicy", scaled_cart_pole(), batch_size=32, n_epochs=1, **SMALL)
    model.learn(128, callback=Switch(), log_interval=None)
    observation = np.zeros((1, 4), np.float32)
    before, deviation = restored_value(model, observation), model.return_moments.deviation
    model.learning_rate = 1e-30  # nothing but the change of units moves the value
    model.learn(32, log_interval=None)
    assert model.return_moments == ReturnMoments()
    assert restored_value(model, observation) == pytest.approx(
        before, abs=float(32 * np.finfo(np.float32).eps * deviation)
    )


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("algorithm", [PPO, PPG])
@pytest.mark.parametrize("way", ["start_from", "file", "dictionary"])
def test_weights_come_with_their_units(way: str, algorithm: Any, normalized: bool, tmp_path: Any) -> None:
    """A new model says what the source said, at once and after a rollout, and also without normalize_returns."""
    observation = np.zeros((1, 4), np.float32)
    source = algorithm("MlpPolicy", scaled_cart_pole(), batch_size=32, **SMALL).learn(96)
    source.save(tmp_path / "source.zip")
    model = algorithm(
        "MlpPolicy",
        scaled_cart_pole(),
        batch_size=32,
        learning_rate=1e-30,
        **{**SMALL, "normalize_returns": normalized},
    )
    if algorithm is PPG:
        model.aux_learning_rate = 1e-30
    if way == "start_from":
        start_from(model, tmp_path / "source.zip")
    else:
        model.learn(32)  # it has units of its own by now
        model.set_parameters(tmp_path / "source.zip" if way == "file" else source.get_parameters())
    assert model.return_moments == source.return_moments
    assert restored_value(model, observation) == restored_value(source, observation)
    model.learn(32)
    assert (model.return_moments == ReturnMoments()) is not normalized
    assert restored_value(model, observation) == pytest.approx(
        restored_value(source, observation), abs=float(32 * np.finfo(np.float32).eps * source.return_moments.deviation)
    )


@pytest.mark.parametrize("way", ["file", "dictionary"])
def test_weights_in_units_of_rewards_end_the_units_of_a_model(way: str, tmp_path: Any) -> None:
    source = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, seed=1)
    source.save(tmp_path / "source.zip")
    model = PPO("MlpPolicy", scaled_cart_pole(), batch_size=32, **SMALL).learn(64)
    model.set_parameters(tmp_path / "source.zip" if way == "file" else source.get_parameters())
    observation = np.zeros((1, 4), np.float32)
    assert restored_value(model, observation) == restored_value(source, observation)


def test_a_part_of_a_dictionary_leaves_the_units_as_they_are() -> None:
    model = PPO("MlpPolicy", scaled_cart_pole(), batch_size=32, **SMALL).learn(64)
    before, observation = model.return_moments, np.zeros((1, 4), np.float32)
    value = restored_value(model, observation)
    model.set_parameters({"policy": model.policy.state_dict()}, exact_match=False)
    assert model.return_moments == before
    assert restored_value(model, observation) == value


def test_units_that_a_model_cannot_use_are_refused(tmp_path: Any) -> None:
    PPO("MlpPolicy", "CartPole-v1", batch_size=32, **SMALL).learn(32).save(tmp_path / "source.zip")
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, rollout_buffer_class=OwnBuffer)
    with pytest.raises(ModelFileError, match=r"cannot start from .*not of a OwnBuffer"):
        start_from(model, tmp_path / "source.zip")


def test_a_rollout_of_returns_that_are_all_alike() -> None:
    model = A2C(
        "MlpPolicy", make_vec_env(lambda: EndlessEnv(1), n_envs=4), n_steps=4, gamma=0.0, normalize_returns=True
    )
    model.learn(64)
    assert np.isfinite(model.policy.parameters_to_vector()).all()


class OwnBuffer(RolloutBuffer):
    """Of a user."""


def test_bad_combinations_are_errors() -> None:
    with pytest.raises(ValueError, match="RND\\(own_value=True\\) has a second one"):
        PPO("MlpPolicy", "CartPole-v1", normalize_returns=True, intrinsic_reward=RND(own_value=True))
    with pytest.raises(ValueError, match="not of a OwnBuffer"):
        PPO("MlpPolicy", "CartPole-v1", normalize_returns=True, rollout_buffer_class=OwnBuffer)
    with pytest.raises(ValueError, match="normalize_returns is 'yes'; expected True or False"):
        PPO("MlpPolicy", "CartPole-v1", normalize_returns="yes")  # type: ignore[arg-type]
