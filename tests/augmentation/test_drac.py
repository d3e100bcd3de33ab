"""Augmentations in agents: DrAC's terms by hand, what they change and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from family import FAMILY, weights
from proximo import A2C, PPG, PPO, TRPO, make_vec_env
from proximo.augmentation import (
    BaseAugmentation,
    GaussianNoise,
    GrayScale,
    Identity,
    RandomCrop,
    RandomShift,
    RandomTranslate,
    augmentation_terms,
)
from proximo.config import UpdateSettings
from proximo.envs import DummyVecEnv
from proximo.envs.testing.environments import FakeImageEnv, SimpleMultiObsEnv
from proximo.errors import ModelFileError
from proximo.learners.ppo import PPOLearner
from proximo.networks.distributions import CategoricalDistribution, DiagGaussianDistribution
from proximo.networks.distributions.divergence import parameter_rows
from proximo.rollout.minibatches import on_device
from proximo.training.checkpoints import CheckpointFolder, PeriodicCheckpoints

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3}


def cartpole() -> Any:
    return make_vec_env("CartPole-v1", n_envs=2, seed=0)


def image_env(size: int = 40, channels: int = 3) -> Any:
    make = lambda: FakeImageEnv(screen_height=size, screen_width=size, n_channels=channels)  # noqa: E731
    return DummyVecEnv([make, make])


def test_terms_by_hand() -> None:
    """π(s) = (½, ½), π(f(s)) = (¾, ¼): KL = ½ log ½/¾ + ½ log ½/¼ = ½ log 4/3; values 3 and 1: 4."""
    plain = CategoricalDistribution(2).proba_distribution(torch.zeros(1, 2, requires_grad=True))
    logits = torch.log(torch.tensor([[0.75, 0.25]])).requires_grad_()
    changed = CategoricalDistribution(2).proba_distribution(logits)
    plain_values = torch.tensor([3.0], requires_grad=True)
    values = torch.tensor([1.0], requires_grad=True)
    terms = augmentation_terms(parameter_rows(plain), plain_values, changed, values)
    assert terms.policy.item() == pytest.approx(0.5 * np.log(4.0 / 3.0))
    assert terms.value.item() == 4.0
    (terms.policy + terms.value).backward()
    assert plain_values.grad is None  # the plain side is what the other one is pulled to
    assert values.grad is not None
    assert values.grad.tolist() == [-4.0]
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.tensor([[0.25, -0.25]]))  # π(f(s)) − π(s)


def test_terms_of_a_gaussian_by_hand() -> None:
    """Means 0 and 1, deviations 1: KL = ½. Rows that do not train do not count."""
    one, log_std = torch.zeros(2, 1), torch.zeros(1)
    plain = parameter_rows(DiagGaussianDistribution(1).proba_distribution(one, log_std))
    changed = DiagGaussianDistribution(1).proba_distribution(torch.tensor([[1.0], [100.0]]), log_std)
    valid = torch.tensor([True, False])
    terms = augmentation_terms(plain, torch.tensor([2.0]), changed, torch.tensor([2.5]), valid)
    assert float(terms.policy) == 0.5
    assert float(terms.value) == 0.25


class Shifted(BaseAugmentation):
    """Adds 1 to every number; keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return x + 1.0


def full_batch(model: Any) -> Any:
    model.learn(32)
    return on_device(model.rollout_buffer.rollout, model.device)


def test_the_loss_of_the_learner_by_hand_and_the_ratio_of_plain_observations() -> None:
    """A perturbed batch changes two extra terms, and neither ratio, divergence, value loss nor entropy."""
    augmentation = Shifted()
    model = PPO("MlpPolicy", cartpole(), **SMALL, augmentation=augmentation, aug_coef=0.25)
    assert model.backend == "torch: observations are augmented"
    batch = full_batch(model)
    settings = model._settings()
    assert settings.aug_coef == 0.25
    plain = model.learner.loss_terms(batch, settings)
    terms = model.learner.regularized_terms(batch, settings)
    assert torch.equal(augmentation.seen[-1], batch.observations)
    for name in ("policy_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction"):
        assert torch.equal(getattr(terms, name), getattr(plain, name)), name
    with torch.no_grad():
        log_p, log_q = (
            torch.log_softmax(model.policy.get_distribution(rows).distribution.logits, dim=1)
            for rows in (batch.observations, batch.observations + 1.0)
        )
        value, changed_value = (
            model.policy.predict_values(rows).flatten() for rows in (batch.observations, batch.observations + 1.0)
        )
        divergence = (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()
        squares = (value - changed_value).square().mean()
    torch.testing.assert_close(terms.extra["aug_policy_loss"], divergence)
    torch.testing.assert_close(terms.extra["aug_value_loss"], squares)
    torch.testing.assert_close(terms.loss, plain.loss + 0.25 * (divergence + squares))
    assert divergence > 0.0


@pytest.mark.parametrize("name", ["ppo", "a2c", "ppg", "lstm", "gru", "masks", "noise", "hybrid", "a2c with memory"])
def test_identity_gives_exactly_zero_terms_and_the_same_training(name: str) -> None:
    member = FAMILY[name]
    plain = member.make(backend="torch")
    member.learn(plain, 96)
    model = member.make(augmentation=Identity())
    member.learn(model, 96, log_interval=1)
    logged = model.logger.name_to_value
    assert logged["train/aug_policy_loss"] == 0.0
    assert logged["train/aug_value_loss"] == 0.0
    # the gradient of the divergence is π(f(s)) − π(s), zero up to rounding
    torch.testing.assert_close(weights(model), weights(plain), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "a2c", "ppg", "lstm", "masks"])
def test_an_augmentation_changes_the_training(name: str) -> None:
    member = FAMILY[name]
    plain, model = member.make(backend="torch"), member.make(augmentation=GaussianNoise(sigma=0.5))
    member.learn(plain, 96)
    member.learn(model, 96, log_interval=1)
    assert model.logger.name_to_value["train/aug_policy_loss"] > 0.0
    assert not torch.equal(weights(model), weights(plain))


def test_the_terms_pull_the_augmented_outputs_to_the_plain_ones() -> None:
    """Descending them alone makes the policy see no difference between x and x + 1."""
    model = PPO("MlpPolicy", cartpole(), **SMALL, augmentation=Shifted(), learning_rate=1e-2)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(100.0)
    batch = full_batch(model)
    alone = model._settings().changed(aug_coef=1.0, ent_coef=0.0, vf_coef=0.0)
    batch = batch._replace(advantages=torch.zeros_like(batch.advantages))
    alone = alone.changed(normalize_advantage=False)
    first = model.learner.regularized_terms(batch, alone)
    for _ in range(60):
        model.policy.optimizer.zero_grad()
        terms = model.learner.regularized_terms(batch, alone)
        terms.loss.backward()
        model.policy.optimizer.step()
    assert first.extra["aug_policy_loss"] > 0.01
    assert terms.extra["aug_policy_loss"] < 0.2 * first.extra["aug_policy_loss"]
    assert terms.extra["aug_value_loss"] < 0.2 * first.extra["aug_value_loss"]


def test_images_and_dictionaries() -> None:
    model = PPO("CnnPolicy", image_env(), **SMALL, augmentation=RandomShift(pad=2), device="cpu")
    model.learn(32)
    assert model.logger.name_to_value["train/aug_policy_loss"] > 0.0
    env = DummyVecEnv([SimpleMultiObsEnv] * 2)
    parts = {"img": RandomShift(pad=4), "vec": GaussianNoise(sigma=0.1)}
    model = PPO("MultiInputPolicy", env, **SMALL, augmentation=parts, device="cpu")
    model.learn(32)
    assert model.logger.name_to_value["train/aug_policy_loss"] > 0.0


def test_a_crop_that_keeps_the_size_fits_and_others_are_refused() -> None:
    PPO("CnnPolicy", image_env(84, 1), **SMALL, augmentation=RandomCrop(), device="cpu")
    cases: list[tuple[str, Any, Any, type[Exception], str]] = [
        ("CnnPolicy", image_env(), RandomCrop(out=84), ValueError, r"RandomCrop makes \(3, 84, 84\) of observations"),
        ("CnnPolicy", image_env(), GrayScale(), ValueError, r"GrayScale makes \(1, 40, 40\)"),
        ("CnnPolicy", image_env(), RandomTranslate(), ValueError, "RandomTranslate makes"),
        ("CnnPolicy", image_env(), GaussianNoise(), ValueError, "changes states of 1 dimensions"),
        ("MlpPolicy", cartpole(), RandomShift(), ValueError, "changes images of 3 dimensions"),
        ("MlpPolicy", cartpole(), RandomShift, TypeError, "augmentation is <class"),
        ("MlpPolicy", "FrozenLake-v1", Identity(), ValueError, "the observations are Discrete"),
        ("MultiInputPolicy", SimpleMultiObsEnv(), RandomShift(), TypeError, "give a dictionary of augmentations"),
        ("MultiInputPolicy", SimpleMultiObsEnv(), {"picture": RandomShift()}, ValueError, "no observation; there are"),
    ]
    for policy, env, augmentation, error, message in cases:
        with pytest.raises(error, match=message):
            PPO(policy, env, augmentation=augmentation, device="cpu")


def test_an_argument_without_effect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"aug_coef is 0\.2, but there is no augmentation"):
        PPO("MlpPolicy", "CartPole-v1", aug_coef=0.2)
    with pytest.raises(ValueError, match="aug_coef is -1"):
        PPO("MlpPolicy", "CartPole-v1", aug_coef=-1.0, augmentation=Identity())
    with pytest.raises(TypeError, match="augmentation"):
        TRPO("MlpPolicy", "CartPole-v1", augmentation=Identity())
    with pytest.raises(ValueError, match="the fused backend cannot run this policy: observations are augmented"):
        PPO("MlpPolicy", "CartPole-v1", augmentation=Identity(), backend="fused")


def test_a_learner_of_the_users_own_is_regularised_too() -> None:
    class Mine(PPOLearner):
        def loss_terms(self, batch: Any, settings: UpdateSettings) -> Any:
            terms = super().loss_terms(batch, settings)
            return terms._replace(loss=terms.loss * 1.0, extra={"mine": terms.loss})

    model = PPO("MlpPolicy", cartpole(), **SMALL, augmentation=GaussianNoise(), learner_class=Mine).learn(32)
    logged = model.logger.name_to_value
    assert {"train/mine", "train/aug_policy_loss", "train/aug_value_loss"} <= logged.keys()


def test_an_augmentation_is_saved_with_the_model(tmp_path: Path) -> None:
    for algorithm in (PPO, A2C, PPG):
        batch = {} if algorithm is A2C else {"batch_size": 32}
        noise = GaussianNoise(sigma=0.25)
        model = algorithm("MlpPolicy", cartpole(), n_steps=16, **batch, augmentation=noise, aug_coef=0.5)
        model.save(tmp_path / "model")
        again = algorithm.load(tmp_path / "model", env=cartpole())
        assert isinstance(again.augmentation, GaussianNoise)
        assert (again.augmentation.sigma, again.aug_coef) == (0.25, 0.5)
        assert again.learner.augmentation is again.augmentation
        assert again.backend == "torch: observations are augmented"
    parts = {"img": RandomShift(pad=2)}
    model = PPO("MultiInputPolicy", SimpleMultiObsEnv(), n_steps=16, batch_size=16, augmentation=parts, device="cpu")
    model.save(tmp_path / "model")
    assert PPO.load(tmp_path / "model").augmentation["img"].pad == 2

    class Mine(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    PPO("MlpPolicy", cartpole(), n_steps=16, batch_size=32, augmentation=Mine()).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="augmentation"):
        PPO.load(tmp_path / "model")
    assert PPO.load(tmp_path / "model", custom_objects={"augmentation": Identity()}).augmentation is not None


def test_augmented_trainings_resume_exactly(tmp_path: Path) -> None:
    def make() -> Any:
        return PPO("MlpPolicy", cartpole(), **SMALL, augmentation=GaussianNoise(sigma=0.3))

    whole = make().learn(128)
    make().learn(128, callback=PeriodicCheckpoints(tmp_path, every_steps=64, keep_last=9))
    again = PPO.load(CheckpointFolder(tmp_path).of(64), env=cartpole())
    torch.manual_seed(99)
    again.resume()
    assert torch.equal(weights(again), weights(whole))
