"""PPG for its users: spaces, errors at once, files, and that it is PPO until the first auxiliary phase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import proximo
from family import Corridor, MaskedCorridor, hybrid, weights
from proximo import PPG, PPO, make_vec_env
from proximo.envs.testing.environments import (
    FakeImageEnv,
    IdentityEnvBox,
    IdentityEnvMultiBinary,
    IdentityEnvMultiDiscrete,
    InvalidActionEnvMultiBinary,
    MatchObservationEnv,
    SimpleMultiObsEnv,
)
from proximo.errors import NotEnoughMemoryError
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.networks.encoders import ImpalaCNN
from proximo.networks.phasic import PhasicCnnPolicy, PhasicMultiInputPolicy, PhasicPolicy
from proximo.rollout import phase as phase_module
from proximo.training.loggers import Logger

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "rollouts_per_phase": 2, "seed": 3}


class PairEnv(gym.ActionWrapper[Any, Any, Any]):
    """A corridor whose walker also chooses two numbers."""

    def __init__(self) -> None:
        super().__init__(Corridor())
        self.action_space = spaces.Tuple([spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,), np.float32)])

    def action(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        return int(action[0])


def switches_with_masks() -> gym.Env[Any, Any]:
    return InvalidActionEnvMultiBinary(3, n_invalid_actions=2)


def small_images() -> gym.Env[Any, Any]:
    return FakeImageEnv(screen_height=36, screen_width=36)


def make(environment: Any, policy: str = "MlpPolicy", n_envs: int = 2, **arguments: Any) -> PPG:
    return PPG(policy, make_vec_env(environment, n_envs=n_envs, seed=0), **(SMALL | arguments))


class Records(Logger):
    """Keeps everything that is written."""

    def __init__(self) -> None:
        super().__init__(None, [])
        self.written: list[dict[str, Any]] = []

    def dump(self, step: int = 0) -> None:
        self.written.append(dict(self.name_to_value))
        super().dump(step)


# -- every space


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize(
    ("environment", "policy", "kernels"),
    [
        ("CartPole-v1", "MlpPolicy", True),
        ("Pendulum-v1", "MlpPolicy", True),
        (IdentityEnvBox, "MlpPolicy", True),
        (lambda: IdentityEnvMultiDiscrete(3), "MlpPolicy", True),
        (lambda: IdentityEnvMultiBinary(3), "MlpPolicy", True),
        (hybrid, "MlpPolicy", False),
        (PairEnv, "MlpPolicy", False),
        (small_images, "CnnPolicy", False),
        (lambda: SimpleMultiObsEnv(random_start=False), "MultiInputPolicy", False),
    ],
    ids=["discrete", "box", "box, too", "several", "switches", "dict", "tuple", "images", "dict observations"],
)
def test_every_space_trains_through_an_auxiliary_phase(
    environment: Any, policy: str, kernels: bool, backend: Any
) -> None:
    model = make(environment, policy, backend=backend)
    model.set_logger(records := Records())
    head = weights_of(model.policy.auxiliary_value_net)
    model.learn(2 * 2 * 16)
    assert model.num_timesteps == 64
    assert (model.backend == "fused") == (kernels and backend == "auto")
    assert not torch.equal(head, weights_of(model.policy.auxiliary_value_net))
    assert torch.isfinite(weights(model)).all()
    assert "train/kl_loss" not in records.written[0]
    logged = records.written[1]
    assert logged["train/kl_loss"] > 0.0
    assert logged["train/aux_value_loss"] >= 0.0
    names = ("policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction")
    assert {f"train/{name}" for name in names} <= logged.keys()


def weights_of(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).clone()


@pytest.mark.parametrize("environment", [MaskedCorridor, switches_with_masks])
def test_masks_reach_the_auxiliary_phase(environment: Any) -> None:
    model = make(environment)
    model.learn(2 * 2 * 16, use_masking=True)
    phase = model.learner.phase
    assert phase.action_masks is not None
    assert phase.action_masks.shape == (32, 2, model.policy.action_dist.mask_width)
    assert model.auxiliary_bytes == phase.samples * (phase.action_masks.shape[-1] + 5 + observation_bytes(model))
    if environment is MaskedCorridor:
        assert np.array_equal(phase.action_masks.sum(axis=-1), np.full((32, 2), 3))
    assert torch.isfinite(weights(model)).all()


def observation_bytes(model: PPG) -> int:
    space = model.observation_space
    return int(np.prod(space.shape or (1,))) * (4 if np.issubdtype(space.dtype, np.floating) else space.dtype.itemsize)


def test_state_dependent_noise_trains() -> None:
    model = make("Pendulum-v1", use_sde=True)
    model.set_logger(records := Records())
    model.learn(64)
    assert records.written[1]["train/kl_loss"] > 0.0


@pytest.mark.parametrize("share", [True, False], ids=["single", "dual"])
def test_images_with_the_residual_encoder(share: bool) -> None:
    network = {"features_extractor_class": ImpalaCNN, "features_extractor_kwargs": {"features_dim": 16}}
    model = make(
        small_images, "CnnPolicy", n_steps=8, policy_kwargs={**network, "share_features_extractor": share}
    ).learn(32)
    phase = model.learner.phase
    assert isinstance(phase.observations, np.ndarray)
    assert phase.observations.dtype == np.uint8
    assert phase.observations.strides[-3] == 1  # channels last in memory, as convolutions like them
    assert model.auxiliary_bytes == 32 * (36 * 36 + 5)
    assert model.backend == "torch: features extractor is ImpalaCNN"
    assert model.policy.share_features_extractor == share


# -- PPG is PPO plus an auxiliary phase


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_before_the_first_auxiliary_phase_it_is_ppo(backend: Any) -> None:
    common: dict[str, Any] = {
        "n_steps": 32, "batch_size": 16, "n_epochs": 1, "learning_rate": 1e-3, "gamma": 0.98, "clip_range_vf": 0.2,
        "ent_coef": 0.01, "normalize_advantage": False, "seed": 1, "backend": backend,
    }  # fmt: skip
    found = []
    for algorithm, extra in ((PPO, {}), (PPG, {"rollouts_per_phase": 1000})):
        env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
        model = algorithm(PhasicPolicy, env, **common, **extra).learn(8 * 128)
        found.append(model)
    assert torch.equal(weights(found[0]), weights(found[1]))
    observation = np.full(4, 0.1, np.float32)
    assert found[0].predict(observation, deterministic=True)[0] == found[1].predict(observation, deterministic=True)[0]


def test_normalising_over_one_batch_is_normalising_over_the_rollout() -> None:
    common: dict[str, Any] = {"n_steps": 32, "batch_size": 128, "n_epochs": 1, "learning_rate": 1e-3, "seed": 1}
    found = []
    for algorithm, extra in ((PPO, {}), (PPG, {"gamma": 0.99, "ent_coef": 0.0, "clip_range_vf": None})):
        env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
        found.append(weights(algorithm(PhasicPolicy, env, **common, **extra).learn(3 * 128)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_probe_is_learnt(backend: Any) -> None:
    """Observation −1 wants action 0, observation 1 action 1; the value of either is then near 1, the mean."""
    env = make_vec_env(MatchObservationEnv, n_envs=16, seed=0)
    model = PPG(
        "MlpPolicy", env, n_steps=16, batch_size=64, rollouts_per_phase=4, learning_rate=5e-3, gamma=0.5, ent_coef=0.0,
        policy_kwargs={"net_arch": [16]}, seed=0, backend=backend,
    ).learn(16_000)  # fmt: skip
    observations = torch.tensor([[-1.0], [1.0]])
    with torch.no_grad():
        probabilities = model.policy.get_distribution(observations).distribution.probs
        found = model.policy.evaluate_auxiliary(observations)
    assert float(probabilities[0, 0]) > 0.9
    assert float(probabilities[1, 1]) > 0.9
    assert found.values.numpy() == pytest.approx([1.0, 1.0], abs=0.25)
    assert found.auxiliary_values.numpy() == pytest.approx([0.0, 0.0], abs=0.35)


def test_a_run_repeats_exactly() -> None:
    first, second = (weights(make("CartPole-v1").learn(128)) for _ in range(2))
    assert torch.equal(first, second)


# -- names


def test_stock_policies_become_their_phasic_twins() -> None:
    assert proximo.PPG is PPG
    assert type(make("CartPole-v1").policy) is PhasicPolicy
    assert type(make("CartPole-v1", ActorCriticPolicy).policy) is PhasicPolicy  # type: ignore[arg-type]
    assert type(make(small_images, "CnnPolicy").policy) is PhasicCnnPolicy
    assert type(make(lambda: SimpleMultiObsEnv(), "MultiInputPolicy").policy) is PhasicMultiInputPolicy


# -- errors at once


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_aux_mini_batch": 7}, "num_aux_mini_batch is 7; expected a divisor of the 64 samples"),
        ({"num_aux_grad_accum": 3}, "num_aux_grad_accum is 3; expected a divisor of num_aux_mini_batch 4"),
        ({"rollouts_per_phase": 0}, "rollouts_per_phase is 0; expected a positive whole number"),
        ({"aux_epochs": 0}, "aux_epochs is 0"),
        ({"value_epochs": 0}, "value_epochs is 0"),
        ({"num_aux_mini_batch": 2.0}, "num_aux_mini_batch is 2.0"),
        ({"kl_coef": -1.0}, "kl_coef is -1.0; expected a number of at least 0"),
        ({"aux_learning_rate": -1.0}, "aux_learning_rate"),
    ],
)
def test_bad_hyperparameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("CartPole-v1", **arguments)


@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "CnnGruPolicy"])
def test_memory_is_refused(policy: str) -> None:
    with pytest.raises(ValueError, match=f"PPG cannot train {policy}, a policy with memory; use RecurrentPPO"):
        make("CartPole-v1", policy)


def test_a_policy_without_an_auxiliary_value_is_refused() -> None:
    class Own(ActorCriticPolicy):
        pass

    with pytest.raises(TypeError, match=r"Own: it needs an auxiliary value; derive it from .*PhasicPolicy"):
        make("CartPole-v1", Own)  # type: ignore[arg-type]


def test_too_little_memory_stops_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("CartPole-v1")
    monkeypatch.setattr(phase_module, "available_memory", lambda: 100)
    with pytest.raises(NotEnoughMemoryError, match="the auxiliary buffer needs 2 kB"):
        model.learn(64)
    assert model.num_timesteps == 0


def test_the_buffer_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    model = make("CartPole-v1", verbose=1)
    assert model.auxiliary_bytes == 2 * 16 * 2 * (16 + 4 + 1)
    model.learn(32)
    assert "auxiliary buffer: 2 kB" in capsys.readouterr().out


# -- files


@pytest.mark.parametrize("share", [True, False], ids=["single", "dual"])
def test_files_keep_both_optimisers_and_the_auxiliary_head(tmp_path: Path, share: bool) -> None:
    model = make(small_images, "CnnPolicy", policy_kwargs={"share_features_extractor": share}, aux_learning_rate=1e-4)
    model.learn(64)
    model.save(tmp_path / "model")
    loaded = PPG.load(tmp_path / "model", env=make_vec_env(small_images, n_envs=2, seed=0))
    assert torch.equal(weights(model), weights(loaded))
    assert type(loaded.policy) is PhasicCnnPolicy
    saved, found = model.learner.optimizer.moments(), loaded.learner.optimizer.moments()
    assert saved.keys() == found.keys()
    assert float(found["step"]) == 6 * 4
    for name, value in saved.items():
        assert torch.equal(value, found[name]), name
    assert loaded.rollouts_per_phase == 2
    loaded.learn(64)
    assert float(loaded.learner.optimizer.moments()["step"]) == 2 * 6 * 4


def test_a_checkpoint_goes_on_exactly_in_the_middle_of_a_phase(tmp_path: Path) -> None:
    def half_way(**options: Any) -> PPG:
        return make("CartPole-v1", rollouts_per_phase=4).learn(6 * 32, **options)

    whole = make("CartPole-v1", rollouts_per_phase=4).learn(9 * 32)
    first = half_way()
    assert first.learner.phase.stored == 2
    first._total_timesteps = 9 * 32
    first.save_checkpoint(tmp_path / "checkpoint")
    resumed = PPG.load(tmp_path / "checkpoint", env=make_vec_env("CartPole-v1", n_envs=2, seed=0)).resume()
    assert resumed.num_timesteps == 9 * 32
    assert torch.equal(weights(whole), weights(resumed))
