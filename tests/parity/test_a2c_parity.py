"""A2C: the same weights and the same rollout give the same update as in Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C as OracleA2C
from stable_baselines3.common.logger import configure as oracle_logger
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike as OracleRMSpropTFLike
from stable_baselines3.common.vec_env import DummyVecEnv as OracleVecEnv

from proximo import A2C
from proximo.envs import DummyVecEnv
from proximo.networks.optimizers import RMSpropTFLike
from rounding import LOSSES, assert_same_gradients, assert_same_training

from .conftest import ENVIRONMENTS, STEPS, Pair, RandomEnv

ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "multibinary": spaces.MultiBinary(3),
}
BACKENDS = ["torch", "fused"]


def make_pair(action_space: spaces.Space[Any], backend: str = "torch", **arguments: Any) -> Pair:
    """``optimizer_class`` in policy_kwargs may be a pair: ours, theirs."""
    observed = spaces.Box(-2.0, 2.0, (5,), np.float32)
    factories = [lambda: RandomEnv(observed, action_space) for _ in range(ENVIRONMENTS)]
    arguments = {"n_steps": STEPS, "seed": 0, "device": "cpu"} | arguments
    shared = arguments.pop("policy_kwargs", {})
    ours, theirs = dict(shared), dict(shared)  # copies: the oracle writes its optimiser into the dictionary it is given
    if "optimizer_class" in shared:
        ours["optimizer_class"], theirs["optimizer_class"] = shared["optimizer_class"]
    pair = Pair(
        A2C("MlpPolicy", DummyVecEnv(factories), backend=backend, policy_kwargs=ours, **arguments),
        OracleA2C("MlpPolicy", OracleVecEnv(factories), policy_kwargs=theirs, **arguments),
    )
    pair.oracle.set_logger(oracle_logger(None, []))
    pair.copy_weights()
    return pair


def assert_equal_updates(pair: Pair) -> None:
    assert_same_training(pair.ours.policy, pair.oracle.policy)
    for averages in pair.optimizer_averages().values():
        assert_same_gradients(averages)
    ours, theirs = pair.metrics()
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=LOSSES["rtol"], abs=LOSSES["atol"]), name


def train(pair: Pair, monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    for seed in range(updates):
        pair.fill(seed)
        before = pair.ours.policy.action_net.weight.detach().clone()
        pair.train(monkeypatch, seed)
        assert not torch.equal(before, pair.ours.policy.action_net.weight)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("updates", [1, 4])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_updates(monkeypatch: pytest.MonkeyPatch, action_space: spaces.Space[Any], updates: int, backend: str) -> None:
    pair = make_pair(action_space, backend, ent_coef=0.01)
    assert type(pair.ours.policy.optimizer) is torch.optim.RMSprop
    train(pair, monkeypatch, updates)
    assert_equal_updates(pair)
    assert pair.ours._n_updates == pair.oracle._n_updates == updates


OPTIONS: dict[str, dict[str, Any]] = {
    "Adam": {"use_rms_prop": False},
    "other epsilon": {"rms_prop_eps": 1e-2},
    "normalised advantages": {"normalize_advantage": True},
    "Adam and normalised advantages": {"use_rms_prop": False, "normalize_advantage": True},
    "coefficients": {"ent_coef": 0.2, "vf_coef": 2.0, "gamma": 0.9, "gae_lambda": 0.5},
    "tight gradient norm": {"max_grad_norm": 0.01},
    "schedule": {"learning_rate": lambda progress: 1e-3 * progress},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["discrete", "box"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], kind: str, backend: str) -> None:
    pair = make_pair(ACTIONS[kind], backend, **options)
    for model in (pair.ours, pair.oracle):
        model._current_progress_remaining = 0.6
    train(pair, monkeypatch, updates=3)
    assert_equal_updates(pair)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_rmsprop_in_tensorflows_form(
    monkeypatch: pytest.MonkeyPatch, action_space: spaces.Space[Any], backend: str
) -> None:
    optimizer = {"optimizer_class": (RMSpropTFLike, OracleRMSpropTFLike), "optimizer_kwargs": {"eps": 1e-5}}
    pair = make_pair(action_space, backend, policy_kwargs=optimizer)
    train(pair, monkeypatch, updates=4)
    assert_equal_updates(pair)


NOISE: dict[str, dict[str, Any]] = {
    "plain": {},
    "one deviation per latent": {"full_std": False},
    "expln": {"use_expln": True, "log_std_init": 0.2},
    "squashed": {"squash_output": True, "log_std_init": -1.0},
}


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("policy_kwargs", NOISE.values(), ids=NOISE)
def test_state_dependent_exploration(
    monkeypatch: pytest.MonkeyPatch, policy_kwargs: dict[str, Any], backend: str
) -> None:
    pair = make_pair(ACTIONS["box"], backend, use_sde=True, policy_kwargs=policy_kwargs)
    train(pair, monkeypatch, updates=4)
    assert_equal_updates(pair)


@pytest.mark.parametrize("backend", ["fused", pytest.param("torch", marks=pytest.mark.slow)])
def test_it_learns(backend: str) -> None:
    """CartPole's return grows from about 20 to several times that; Stable-Baselines3's A2C does the same."""
    from proximo import make_vec_env

    model = A2C("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=0), seed=0, backend=backend)
    model.learn(20_000 if backend == "torch" else 40_000)
    assert np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-20:]]) > 80.0
