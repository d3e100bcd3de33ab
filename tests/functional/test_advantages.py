"""Advantages by hand, by equation, and as Stable-Baselines3 computes them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from proximo.functional.advantages import compiled_scan, estimate_advantages, reference_scan


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def flags(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.bool_)[:, None]


# rewards 1, 2, 3; values 10, 20, 30; value after the last step 40; gamma 0.5, lambda 0.5
# δ₂ = 3 + 20 − 30 = −7, δ₁ = 2 + 15 − 20 = −3, δ₀ = 1 + 10 − 10 = 1
BY_HAND = {
    "no end": (flags(0, 0, 0), flags(0, 0, 0), [1 + 0.25 * -4.75, -3 + 0.25 * -7, -7]),
    "ended at the first step": (flags(1, 0, 0), flags(0, 0, 0), [1 - 10, -4.75, -7]),
    "ended at the second step": (flags(0, 1, 0), flags(0, 0, 0), [1 + 0.25 * (2 - 20), 2 - 20, -7]),
    "ended at the last step": (flags(0, 0, 1), flags(0, 0, 0), [1 + 0.25 * -9.75, -3 + 0.25 * -27, 3 - 30]),
    "cut at the first step": (flags(0, 0, 0), flags(1, 0, 0), [1 + 50 - 10, -4.75, -7]),
    "cut at the second step": (flags(0, 0, 0), flags(0, 1, 0), [1 + 0.25 * 32, 2 + 50 - 20, -7]),
    "cut at the last step": (flags(0, 0, 0), flags(0, 0, 1), [1 + 0.25 * 2.75, -3 + 0.25 * 23, 3 + 50 - 30]),
    "ended, cut, ended": (flags(1, 0, 1), flags(0, 1, 0), [1 - 10, 2 + 50 - 20, 3 - 30]),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case):
    terminated, truncated, expected = BY_HAND[case]
    bootstrap = np.where(truncated, np.float32(100), np.float32(0))
    values = column(10, 20, 30)
    advantages, returns = estimate_advantages(
        column(1, 2, 3), values, terminated, truncated, bootstrap, np.float32([40]), gamma=0.5, gae_lambda=0.5
    )
    np.testing.assert_allclose(advantages[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(returns, advantages + values)


def test_lambda_one_is_the_discounted_return_and_lambda_zero_the_one_step_error():
    rng = np.random.default_rng(0)
    rewards, values = rng.standard_normal((6, 2)).astype(np.float32), rng.standard_normal((6, 2)).astype(np.float32)
    no, last = np.zeros((6, 2), np.bool_), rng.standard_normal(2).astype(np.float32)
    _, returns = estimate_advantages(rewards, values, no, no, np.zeros_like(values), last, 0.9, 1.0)
    expected = sum(0.9**step * rewards[step] for step in range(6)) + 0.9**6 * last
    np.testing.assert_allclose(returns[0], expected, rtol=1e-5)
    advantages, _ = estimate_advantages(rewards, values, no, no, np.zeros_like(values), last, 0.9, 0.0)
    following = np.concatenate([values[1:], last[None]])
    np.testing.assert_allclose(advantages, rewards + 0.9 * following - values, rtol=1e-5, atol=1e-6)


rollouts = st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(0, 9999))


def random_rollout(steps: int, environments: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (steps, environments)
    ends = rng.choice([0, 0, 0, 1, 2], shape)
    return {
        "rewards": rng.standard_normal(shape).astype(np.float32),
        "values": rng.standard_normal(shape).astype(np.float32),
        "terminated": ends == 1,
        "truncated": ends == 2,
        "bootstrap_values": np.where(ends == 2, rng.standard_normal(shape), 0).astype(np.float32),
        "last_values": rng.standard_normal(environments).astype(np.float32),
    }


@settings(max_examples=60, derandomize=True)
@given(size=rollouts, gamma=st.floats(0.5, 1.0), gae_lambda=st.floats(0.0, 1.0))
def test_compiled_and_reference_agree_to_the_bit(size, gamma, gae_lambda):
    rollout = random_rollout(*size)
    names = ("rewards", "values", "bootstrap_values", "last_values", "terminated", "truncated")
    arrays = [rollout[name] for name in names]
    found = []
    for scan in (reference_scan, compiled_scan()):
        advantages = np.full(rollout["rewards"].shape, np.nan, np.float32)
        scan(np.float32(gamma), np.float32(gamma * gae_lambda), advantages, *arrays)
        found.append(advantages)
    np.testing.assert_array_equal(*found)


@settings(max_examples=60, derandomize=True)
@given(size=rollouts, gamma=st.floats(0.5, 1.0), gae_lambda=st.floats(0.0, 1.0))
def test_stable_baselines3_computes_the_same(size, gamma, gae_lambda):
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    rollout = random_rollout(*size)
    steps, environments = rollout["rewards"].shape
    space = spaces.Box(-1.0, 1.0, (1,))
    buffer = buffers.RolloutBuffer(steps, space, space, "cpu", gae_lambda=gae_lambda, gamma=gamma, n_envs=environments)
    done = rollout["terminated"] | rollout["truncated"]
    buffer.rewards = rollout["rewards"] + np.float32(gamma) * rollout["bootstrap_values"]
    buffer.values = rollout["values"]
    buffer.episode_starts[1:] = done[:-1]
    buffer.compute_returns_and_advantage(torch.from_numpy(rollout["last_values"]), done[-1])
    advantages, returns = estimate_advantages(**rollout, gamma=gamma, gae_lambda=gae_lambda)
    np.testing.assert_allclose(advantages, buffer.advantages, atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(returns, buffer.returns, atol=1e-6, rtol=1e-5)


def test_shapes_that_do_not_match_are_named():
    rollout = random_rollout(5, 2, 0)
    with pytest.raises(ValueError, match=r"values has shape \(4, 2\)"):
        estimate_advantages(**(rollout | {"values": rollout["values"][:4]}), gamma=0.9, gae_lambda=0.9)
    with pytest.raises(ValueError, match="last_values"):
        estimate_advantages(**(rollout | {"last_values": np.zeros(3, np.float32)}), gamma=0.9, gae_lambda=0.9)


def test_without_the_fused_backend_numba_is_not_imported():
    code = (
        "import sys, numpy as np\n"
        "from proximo.functional.advantages import estimate_advantages\n"
        "z, no = np.zeros((2, 1), np.float32), np.zeros((2, 1), bool)\n"
        "print(estimate_advantages(z + 1, z, no, no, z, z[0], 0.5, 1.0)[0].tolist(), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[1.5], [1.0]] False"
