"""Tiny environments with known values: each isolates one thing that a learner must get right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from proximo import PPO, evaluate_policy, make_vec_env
from proximo.envs.testing.environments import (
    ActionMattersEnv,
    ConstantRewardEnv,
    DelayedRewardEnv,
    EndlessEnv,
    IdentityEnv,
    IdentityEnvBox,
    IdentityEnvMultiBinary,
    IdentityEnvMultiDiscrete,
    MatchObservationEnv,
)

BACKENDS = ["fused", "torch"]
# two probes train through torch at once; elsewhere it repeats what the comparison of both backends holds it to
FUSED_AND_SLOWLY_TORCH = ["fused", pytest.param("torch", marks=pytest.mark.slow)]


def train(environment: Any, backend: str, steps: int, **arguments: Any) -> PPO:
    settings: dict[str, Any] = {
        "n_steps": 16,
        "batch_size": 64,
        "n_epochs": 4,
        "learning_rate": 3e-3,
        "gamma": 0.5,
        "policy_kwargs": {"net_arch": [16]},
        "seed": 0,
    }
    env = make_vec_env(environment, n_envs=16, seed=0)
    return PPO("MlpPolicy", env, backend=backend, **(settings | arguments)).learn(steps)


def value(model: PPO, observation: float) -> float:
    with torch.no_grad():
        return float(model.policy.predict_values(torch.tensor([[observation]])))


def probabilities(model: PPO, observation: Any) -> Any:
    batch, _ = model.policy.obs_to_tensor(observation)
    with torch.no_grad():
        return model.policy.get_distribution(batch).distribution.probs[0].numpy()


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_of_one_step(backend: str) -> None:
    model = train(ConstantRewardEnv, backend, steps=4_000)
    assert value(model, 0.0) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("backend", FUSED_AND_SLOWLY_TORCH)
def test_discount(backend: str) -> None:
    """The step before the last is worth gamma."""
    model = train(DelayedRewardEnv, backend, steps=12_000)
    assert value(model, 1.0) == pytest.approx(1.0, abs=0.03)
    assert value(model, 0.0) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("backend", BACKENDS)
def test_action_matters(backend: str) -> None:
    model = train(ActionMattersEnv, backend, steps=8_000)
    assert probabilities(model, np.zeros(1))[1] > 0.95
    assert value(model, 0.0) == pytest.approx(1.0, abs=0.15)
    assert model.predict(np.zeros(1), deterministic=True)[0] == 1


@pytest.mark.parametrize("backend", FUSED_AND_SLOWLY_TORCH)
def test_observation_and_action_matter(backend: str) -> None:
    model = train(MatchObservationEnv, backend, steps=12_000)
    assert probabilities(model, np.array([-1.0]))[0] > 0.95
    assert probabilities(model, np.array([1.0]))[1] > 0.95
    assert value(model, 1.0) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("backend", FUSED_AND_SLOWLY_TORCH)
@pytest.mark.parametrize("limit", [1, 5])
def test_time_limit_is_no_end(backend: str, limit: int) -> None:
    """Reward 1 for ever is worth 1 / (1 − gamma) = 2, however often a time limit cuts the episode."""
    model = train(lambda: EndlessEnv(limit), backend, steps=12_000)
    assert value(model, 0.0) == pytest.approx(2.0, abs=0.05)
    assert all(episode["l"] == limit for episode in model.ep_info_buffer)


IDENTITIES = {
    "discrete": (lambda: IdentityEnv(3), 90.0),
    "box": (lambda: IdentityEnvBox(eps=0.5), 85.0),
    "multidiscrete": (lambda: IdentityEnvMultiDiscrete(2), 90.0),
    "multibinary": (lambda: IdentityEnvMultiBinary(2), 90.0),
}


@pytest.mark.parametrize(("environment", "wanted"), IDENTITIES.values(), ids=IDENTITIES)
def test_identity_is_learned_in_every_action_space(environment: Any, wanted: float) -> None:
    """100 steps, one point for each observation that the action repeats; deterministic actions get nearly all."""
    model = train(environment, "fused", steps=20_000)
    mean, _ = evaluate_policy(model, make_vec_env(environment, seed=9), n_eval_episodes=3)
    assert mean > wanted
