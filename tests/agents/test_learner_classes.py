"""Learners of a user's own: what the kernels cannot do is an obstacle, never silently ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proximo import A2C, PPG, PPO, TRPO, make_vec_env
from proximo.config import UpdateSettings
from proximo.data import Minibatch
from proximo.functional.losses import LossTerms
from proximo.learners.daac import DAACLearner
from proximo.learners.ppo import PPOLearner
from proximo.learners.trpo import TRPOLearner
from proximo.rollout.storage import RolloutBuffer

SMALL: dict[str, Any] = {"n_steps": 64, "seed": 0}


class Zero(PPOLearner):
    """Learns nothing."""

    def loss_terms(self, batch: Minibatch, settings: UpdateSettings) -> LossTerms:
        terms = super().loss_terms(batch, settings)
        return terms._replace(loss=0.0 * terms.loss, extra={"twice": 2.0 * terms.value_loss})


class ZeroWithAugmentation(PPOLearner):
    """Learns nothing either: what an update descends, an augmentation's terms among it, is 0."""

    def regularized_terms(self, batch: Minibatch, settings: UpdateSettings) -> LossTerms:
        terms = super().regularized_terms(batch, settings)
        return terms._replace(loss=0.0 * terms.loss)


class Patient(PPOLearner):
    """Another use of the settings: nothing that the kernels do by themselves."""

    def update(self, buffer: RolloutBuffer, settings: UpdateSettings) -> dict[str, float]:
        return super().update(buffer, settings) | {"patience": 1.0}


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize(("learner", "overridden"), [(Zero, "loss_terms"), (ZeroWithAugmentation, "regularized_terms")])
def test_a_loss_of_zero_changes_no_weight(algorithm: Any, learner: Any, overridden: str) -> None:
    model = algorithm("MlpPolicy", "CartPole-v1", learner_class=learner, **SMALL)
    before = weights(model)
    model.learn(128)
    assert model.backend == f"torch: {learner.__name__} overrides {overridden}"
    assert torch.equal(before, weights(model))
    plain = algorithm("MlpPolicy", "CartPole-v1", **SMALL).learn(128)
    assert plain.backend == "fused"
    assert not torch.equal(before, weights(plain))


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_further_terms_are_logged(algorithm: Any) -> None:
    model = algorithm("MlpPolicy", "CartPole-v1", learner_class=Zero, **SMALL).learn(64, log_interval=None)
    recorded = model.logger.name_to_value
    assert recorded["train/twice"] == pytest.approx(2.0 * recorded["train/value_loss"], rel=1e-5)


def test_what_the_kernels_need_not_know_stays_with_them() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", learner_class=Patient, **SMALL).learn(64, log_interval=None)
    assert model.backend == "fused"
    assert model.logger.name_to_value["train/patience"] == 1.0


def test_a_method_replaced_on_the_learner_is_noticed() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    assert model.backend == "fused"
    model.learner.loss_terms = lambda batch, settings: pytest.fail("called")
    assert model.backend == "torch: PPOLearner overrides loss_terms"


def test_a_buffer_of_the_users_runs_through_torch() -> None:
    class Own(RolloutBuffer):
        pass

    assert PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=Own, **SMALL).backend == "torch: rollout buffer is Own"
    model = PPO("MlpPolicy", "CartPole-v1", **SMALL)
    model.rollout_buffer = Own(64, model.observation_space, model.action_space, n_envs=1)
    assert model.backend == "torch: rollout buffer is Own"
    with pytest.raises(ValueError, match="cannot run this policy: Zero overrides loss_terms; use backend='auto'"):
        PPO("MlpPolicy", "CartPole-v1", learner_class=Zero, backend="fused", **SMALL)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_an_unknown_objective_is_an_error(backend: Any) -> None:
    class Misspelt(PPO):
        def _settings(self) -> UpdateSettings:
            settings = super()._settings()
            object.__setattr__(settings, "objective", "cliped")
            return settings

    model = Misspelt("MlpPolicy", "CartPole-v1", backend=backend, **SMALL)
    with pytest.raises(ValueError, match="objective is 'cliped'; expected 'clipped' or 'plain'"):
        model.learn(64)
    with pytest.raises(ValueError, match="objective is 'cliped'"):
        UpdateSettings(objective="cliped")  # type: ignore[arg-type]


def test_a_misspelt_hyperparameter_of_an_update_is_an_error() -> None:
    class Hasty(PPOLearner):
        def update(self, buffer: RolloutBuffer, settings: UpdateSettings) -> dict[str, float]:
            return super().update(buffer, settings.changed(learning_rat=1e-3))

    with pytest.raises(TypeError, match="no hyperparameter 'learning_rat'; did you mean 'learning_rate'"):
        PPO("MlpPolicy", "CartPole-v1", learner_class=Hasty, **SMALL).learn(64)


def test_a_learner_of_another_algorithm_is_refused() -> None:
    for algorithm, given in ((PPO, TRPOLearner), (TRPO, PPOLearner), (PPG, PPOLearner), (PPO, "PPOLearner")):
        with pytest.raises(TypeError, match=r"learner_class is .*; expected a subclass of proximo.learners"):
            algorithm("MlpPolicy", "CartPole-v1", learner_class=given, **SMALL)


@pytest.mark.parametrize("name", ["loss_terms", "regularized_terms", "combine", "evaluate"])
def test_a_loss_that_daac_would_never_call_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"Own overrides {name}, which DAAC does not call; override actor_terms or"):
        type("Own", (DAACLearner,), {name: getattr(DAACLearner, name)})


def test_files_name_the_librarys_learners_and_ask_for_others(tmp_path: Path) -> None:
    env = make_vec_env("CartPole-v1", n_envs=1, seed=0)
    PPO("MlpPolicy", env, **SMALL).save(tmp_path / "stock")
    assert PPO.load(tmp_path / "stock").learner_class is PPOLearner
    model = PPO("MlpPolicy", env, learner_class=Zero, **SMALL)
    model.save(tmp_path / "own")
    with pytest.raises(ValueError, match="learner_class"):
        PPO.load(tmp_path / "own")
    loaded = PPO.load(tmp_path / "own", env=env, custom_objects={"learner_class": Zero})
    assert loaded.backend == "torch: Zero overrides loss_terms"
    observation = np.zeros(4, np.float32)
    assert loaded.predict(observation, deterministic=True)[0] == model.predict(observation, deterministic=True)[0]
