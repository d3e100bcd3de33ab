"""The same weights and the same rollout give the same update as in Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rounding import LOSSES, assert_same_gradients, assert_same_training

BACKENDS = ["torch", "fused"]
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "multibinary": spaces.MultiBinary(3),
}


def assert_equal_updates(pair: Any) -> None:
    assert_same_training(pair.ours.policy, pair.oracle.policy)
    for averages in pair.optimizer_averages().values():
        assert_same_gradients(averages)
    ours, theirs = pair.metrics()
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=LOSSES["rtol"], abs=LOSSES["atol"]), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clip_range_vf", [None, 0.2])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_one_gradient(
    make_pair: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    action_space: spaces.Space[Any],
    clip_range_vf: float | None,
    backend: str,
) -> None:
    """One step over the whole rollout: losses, the gradient (Adam's first average), parameters."""
    pair = make_pair(
        action_space, backend=backend, clip_range_vf=clip_range_vf, ent_coef=0.01, batch_size=36, n_epochs=1
    )
    pair.fill(seed=1)
    before = {name: value.clone() for name, value in pair.ours.policy.state_dict().items()}
    pair.train(monkeypatch, seed=1)
    assert_equal_updates(pair)
    moved = {name: not torch.equal(before[name], value) for name, value in pair.ours.policy.state_dict().items()}
    assert all(moved.values()), moved
    assert pair.ours.logger.name_to_value["train/clip_fraction"] > 0.2  # both sides of the clipping are at work


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clip_range_vf", [None, 0.2])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_epochs_of_minibatches(
    make_pair: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    action_space: spaces.Space[Any],
    clip_range_vf: float | None,
    backend: str,
) -> None:
    """Two updates of three epochs, with a short last minibatch."""
    with pytest.warns(UserWarning, match="truncated mini-batch"):
        pair = make_pair(action_space, backend=backend, clip_range_vf=clip_range_vf, ent_coef=0.01, batch_size=10)
    for seed in (2, 3):
        pair.fill(seed)
        pair.train(monkeypatch, seed)
    assert_equal_updates(pair)


OPTIONS: dict[str, dict[str, Any]] = {
    "kl stops at once": {"target_kl": 1e-4},
    "kl stops later": {"target_kl": 0.06, "learning_rate": 0.02, "n_epochs": 6},
    "kl never stops": {"target_kl": 10.0},
    "raw advantages": {"normalize_advantage": False},
    "schedules": {
        "learning_rate": lambda progress: 1e-3 * progress,
        "clip_range": lambda progress: 0.4 * progress,
        "clip_range_vf": lambda progress: 0.1 + progress,
    },
    "tight gradient norm": {"max_grad_norm": 0.01},
    "loose gradient norm": {"max_grad_norm": 1e6},
    "coefficients": {"ent_coef": 0.2, "vf_coef": 2.0, "gamma": 0.9, "gae_lambda": 0.5, "clip_range": 0.05},
    "one layer": {"policy_kwargs": {"net_arch": [16]}},
    "no layers": {"policy_kwargs": {"net_arch": []}},
    "unequal networks": {"policy_kwargs": {"net_arch": {"pi": [8], "vf": [24, 16]}, "activation_fn": nn.ReLU}},
    "value network only": {"policy_kwargs": {"net_arch": {"vf": [8]}}},
    "other Adam": {"policy_kwargs": {"optimizer_kwargs": {"eps": 1e-3, "betas": (0.8, 0.99)}}},
    "small deviation": {"policy_kwargs": {"log_std_init": -1.0, "ortho_init": False}},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["discrete", "box"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(
    make_pair: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    kind: str,
    backend: str,
) -> None:
    pair = make_pair(ACTIONS[kind], backend=backend, **options)
    for model in (pair.ours, pair.oracle):
        model._current_progress_remaining = 0.6
    pair.fill(seed=4)
    pair.train(monkeypatch, seed=4)
    assert_equal_updates(pair)
    assert pair.ours._n_updates == pair.oracle._n_updates


def test_kl_limits_stop_where_they_should(make_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The option table above is only worth something if one limit stops at once, one later, and one never."""
    epochs = {}
    for name in ("kl stops at once", "kl stops later", "kl never stops"):
        pair = make_pair(ACTIONS["discrete"], **OPTIONS[name])
        pair.fill(seed=4)
        before = pair.ours.policy.value_net.weight.detach().clone()
        pair.train(monkeypatch, seed=4)
        epochs[name] = pair.ours._n_updates
        assert torch.equal(before, pair.ours.policy.value_net.weight) == (name == "kl stops at once")
    assert epochs["kl stops at once"] == 1
    assert 1 <= epochs["kl stops later"] < 6
    assert epochs["kl never stops"] == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("factor", "stops"), [(0.999, True), (1.001, False)])
def test_kl_limit_is_one_and_a_half_times_the_target(
    make_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, factor: float, stops: bool, backend: str
) -> None:
    """A target just below or just above two thirds of the divergence decides whether the step is taken."""

    def train(target_kl: float | None) -> Any:
        pair = make_pair(ACTIONS["discrete"], backend=backend, batch_size=36, n_epochs=1, target_kl=target_kl)
        pair.fill(seed=8)
        before = pair.ours.policy.value_net.weight.detach().clone()
        pair.train(monkeypatch, seed=8)
        return pair, torch.equal(before, pair.ours.policy.value_net.weight)

    divergence = train(None)[0].ours.logger.name_to_value["train/approx_kl"]
    pair, stopped = train(factor * divergence / 1.5)
    assert stopped is stops
    assert_equal_updates(pair)


OTHER_OPTIMIZERS = {
    "RMSprop": (torch.optim.RMSprop, {"alpha": 0.99, "eps": 1e-5}),
    "AdamW": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"momentum": 0.9}),
}


@pytest.mark.parametrize(("optimizer", "arguments"), OTHER_OPTIMIZERS.values(), ids=OTHER_OPTIMIZERS)
def test_other_optimizers(
    make_pair: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    optimizer: type[torch.optim.Optimizer],
    arguments: dict[str, Any],
) -> None:
    pair = make_pair(
        ACTIONS["box"],
        backend="auto",
        policy_kwargs={"optimizer_class": optimizer, "optimizer_kwargs": arguments},
    )
    pair.fill(seed=5)
    pair.train(monkeypatch, seed=5)
    assert_same_training(pair.ours.policy, pair.oracle.policy, steps=9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "observation_space",
    [
        spaces.Discrete(4),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiBinary(4),
        spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    ],
    ids=["discrete", "multidiscrete", "multibinary", "matrix"],
)
def test_observation_spaces(
    make_pair: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    observation_space: spaces.Space[Any],
    backend: str,
) -> None:
    pair = make_pair(ACTIONS["discrete"], observation_space, backend=backend)
    pair.fill(seed=6)
    pair.train(monkeypatch, seed=6)
    assert_equal_updates(pair)


def test_images(make_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair(
        ACTIONS["discrete"],
        spaces.Box(0, 255, (1, 36, 36), np.uint8),
        policy="CnnPolicy",
        n_epochs=1,
        backend="auto",
        policy_kwargs={"features_extractor_kwargs": {"features_dim": 32}},
    )
    pair.fill(seed=7)
    pair.train(monkeypatch, seed=7)
    assert_equal_updates(pair)
