"""TRPO: the same weights and the same rollout give sb3-contrib's step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sb3_contrib.common.utils as their_utilities
import sb3_contrib.trpo.trpo as their_module
import torch
from gymnasium import spaces
from sb3_contrib import TRPO as OracleTRPO
from stable_baselines3.common.logger import configure as oracle_logger
from stable_baselines3.common.vec_env import DummyVecEnv as OracleVecEnv

from proximo import TRPO
from proximo.envs import DummyVecEnv
from proximo.learners import trpo as our_module

from .conftest import ENVIRONMENTS, STEPS, Pair, RandomEnv

ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "multibinary": spaces.MultiBinary(3),
}
RELATIVE = 1e-4


@pytest.fixture(autouse=True)
def same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contrib's conjugate gradients start at a small random vector, ours at zero."""
    monkeypatch.setattr(their_utilities.th, "randn_like", torch.zeros_like)


def make_pair(action_space: spaces.Space[Any], backend: str = "torch", **arguments: Any) -> Pair:
    observed = arguments.pop("observation_space", spaces.Box(-2.0, 2.0, (5,), np.float32))
    policy = arguments.pop("policy", "MlpPolicy")
    factories = [lambda: RandomEnv(observed, action_space) for _ in range(ENVIRONMENTS)]
    arguments = {"n_steps": STEPS, "batch_size": 12, "seed": 0, "device": "cpu"} | arguments
    pair = Pair(
        TRPO(policy, DummyVecEnv(factories), backend=backend, **arguments),
        OracleTRPO(policy, OracleVecEnv(factories), **arguments),
    )
    pair.oracle.set_logger(oracle_logger(None, []))
    pair.copy_weights()
    return pair


def directions(monkeypatch: pytest.MonkeyPatch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What the conjugate gradients of both find, from now on."""
    found: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for module, name, kept in (
        (our_module, "conjugate_gradient", found[0]),
        (their_module, "conjugate_gradient_solver", found[1]),
    ):
        solve = getattr(module, name)

        def remember(*args: Any, solve: Any = solve, kept: list[torch.Tensor] = kept, **options: Any) -> torch.Tensor:
            kept.append(solve(*args, **options))
            return kept[-1]

        monkeypatch.setattr(module, name, remember)
    return found


def assert_equal_updates(pair: Pair) -> None:
    theirs = pair.oracle.policy.state_dict()
    for name, value in pair.ours.policy.state_dict().items():
        torch.testing.assert_close(
            value, theirs[name], rtol=RELATIVE, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}"
        )
    ours, their_metrics = pair.metrics()
    assert ours.keys() == their_metrics.keys()
    for name, value in their_metrics.items():
        assert ours[name] == pytest.approx(value, rel=RELATIVE, abs=1e-6), name


@pytest.mark.parametrize("backend", ["torch", "fused"])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_one_update(monkeypatch: pytest.MonkeyPatch, action_space: spaces.Space[Any], backend: str) -> None:
    """Direction, objective, divergence, value loss and parameters."""
    pair = make_pair(action_space, backend)
    pair.fill(seed=1, drift=0.0)
    found = directions(monkeypatch)
    before = {name: value.clone() for name, value in pair.ours.policy.state_dict().items()}
    pair.train(monkeypatch, seed=1)
    (ours,), (theirs,) = found
    assert float((ours - theirs).norm() / theirs.norm()) < RELATIVE
    assert_equal_updates(pair)
    assert pair.ours.logger.name_to_value["train/is_line_search_success"] == 1.0
    moved = {name: not torch.equal(before[name], value) for name, value in pair.ours.policy.state_dict().items()}
    assert all(moved.values()), moved


@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_three_updates(monkeypatch: pytest.MonkeyPatch, action_space: spaces.Space[Any]) -> None:
    pair = make_pair(action_space)
    for seed in range(3):
        pair.copy_weights()  # differences of one step would be magnified by the next one's conjugate gradients
        pair.fill(seed)
        pair.train(monkeypatch, seed)
        assert_equal_updates(pair)
    assert pair.ours._n_updates == pair.oracle._n_updates == 3


OPTIONS: dict[str, dict[str, Any]] = {
    "raw advantages": {"normalize_advantage": False},
    "every second sample": {"sub_sampling_factor": 2},
    "short conjugate gradients": {"cg_max_steps": 3},
    "no damping": {"cg_damping": 0.0, "cg_max_steps": 5},
    "large region, many attempts": {"target_kl": 2.0, "line_search_shrinking_factor": 0.6},
    "search without success": {"target_kl": 5.0, "line_search_max_iter": 1},
    "critic": {"n_critic_updates": 3, "learning_rate": 1e-2},
    "ReLU": {"policy_kwargs": {"activation_fn": torch.nn.ReLU, "net_arch": {"pi": [8], "vf": [16, 4]}}},
    "no layers": {"policy_kwargs": {"net_arch": []}},
    "weight decay": {
        "policy_kwargs": {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.1}}
    },
}


@pytest.mark.parametrize("kind", ["discrete", "box"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], kind: str) -> None:
    pair = make_pair(ACTIONS[kind], **options)
    pair.fill(seed=4)
    pair.train(monkeypatch, seed=4)
    assert_equal_updates(pair)


def test_the_search_fails_and_succeeds_late_where_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option table above is only worth something if one search gives up, and one needs several attempts."""
    attempts: list[torch.Tensor] = []
    assign = our_module.assign_values
    monkeypatch.setattr(our_module, "assign_values", lambda *args: (attempts.append(args[1]), assign(*args)))
    successes = {}
    for name in ("search without success", "large region, many attempts"):
        attempts.clear()
        pair = make_pair(ACTIONS["box"], **OPTIONS[name])
        pair.fill(seed=4)
        pair.train(monkeypatch, seed=4)
        successes[name] = (pair.ours.logger.name_to_value["train/is_line_search_success"], len(attempts))
    assert successes["search without success"] == (0.0, 2)  # one attempt, then back to where it started
    assert successes["large region, many attempts"][0] == 1.0
    assert successes["large region, many attempts"][1] > 1


def test_state_dependent_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair(ACTIONS["box"], backend="auto", use_sde=True)
    pair.fill(seed=5)
    pair.train(monkeypatch, seed=5)
    assert_equal_updates(pair)


def test_images_share_their_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder belongs to the policy: the value network's steps leave it alone."""
    images = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    pair = make_pair(
        ACTIONS["discrete"],
        backend="auto",
        policy="CnnPolicy",
        observation_space=images,
        policy_kwargs={"features_extractor_kwargs": {"features_dim": 16}},
    )
    pair.fill(seed=6)
    pair.train(monkeypatch, seed=6)
    assert_equal_updates(pair)
