"""Generalised advantage estimation (Schulman et al. 2016)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import numpy as np

from proximo.data import Array


def estimate_advantages(
    rewards: Array,  # [time, env] float32, and so are the next ones
    values: Array,  # V of the observation at each step
    terminated: Array,  # [time, env] bool
    truncated: Array,  # [time, env] bool
    bootstrap_values: Array,  # [time, env]: V of the final observation where truncated
    last_values: Array,  # [env]: V of the observation after the last step
    gamma: float,
    gae_lambda: float,
) -> tuple[Array, Array]:
    """Advantages and returns, [time, env] float32 each.

    With δₜ = rₜ + γ V(sₜ₊₁) − V(sₜ), the advantage is Aₜ = δₜ + γ λ Aₜ₊₁ and the return Aₜ + V(sₜ). Where an episode
    ends nothing is carried over from the next step: a terminal state is worth 0, a truncated one the value of its final
    observation.

    >>> zeros, no = np.zeros((2, 1), np.float32), np.zeros((2, 1), bool)
    >>> advantages, _ = estimate_advantages(zeros + 1, zeros, no, no, zeros, zeros[0], gamma=0.5, gae_lambda=1.0)
    >>> advantages[:, 0].tolist()
    [1.5, 1.0]
    """
    shape = rewards.shape
    named = {"values": values, "terminated": terminated, "truncated": truncated, "bootstrap_values": bootstrap_values}
    for name, array in named.items():
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, rewards {shape}; both are [time, env]")
    if last_values.shape != shape[1:]:
        raise ValueError(f"last_values has shape {last_values.shape}, expected [env] = {shape[1:]}")
    # numba takes half a second to import: not worth it here, unless the fused backend has done so already
    scan = compiled_scan() if "numba" in sys.modules else reference_scan
    numbers = [np.ascontiguousarray(array, np.float32) for array in (rewards, values, bootstrap_values, last_values)]
    flags = [np.ascontiguousarray(array, np.bool_) for array in (terminated, truncated)]
    advantages = np.empty(shape, np.float32)
    scan(np.float32(gamma), np.float32(gamma * gae_lambda), advantages, *numbers, *flags)
    return advantages, advantages + numbers[1]


def reference_scan(
    gamma: np.float32,
    decay: np.float32,  # γ λ
    advantages: Array,  # written
    rewards: Array,
    values: Array,
    bootstrap_values: Array,
    last_values: Array,
    terminated: Array,
    truncated: Array,
) -> None:
    """Write the advantages, from the last step to the first, over all environments at once."""
    next_values, next_advantages = last_values, np.zeros_like(last_values)
    for step in range(len(rewards) - 1, -1, -1):
        goes_on = np.float32(1) - (terminated[step] | truncated[step])
        reward = rewards[step] + gamma * np.where(truncated[step], bootstrap_values[step], np.float32(0))
        delta = reward + gamma * next_values * goes_on - values[step]
        next_advantages = delta + decay * goes_on * next_advantages
        next_values = values[step]
        advantages[step] = next_advantages


@cache
def compiled_scan() -> Callable[..., None]:
    """The same arithmetic, in the same order and so to the same bit, without NumPy's microsecond per operation."""
    from proximo.compilation import kernel

    table = "float32[:, ::1]"
    flags = "boolean[:, ::1]"

    @kernel(
        f"void(float32, float32, {table}, {table}, {table}, {table}, float32[::1], {flags}, {flags})", fastmath=False
    )
    def scan(
        gamma: np.float32,
        decay: np.float32,
        advantages: Array,
        rewards: Array,
        values: Array,
        bootstrap_values: Array,
        last_values: Array,
        terminated: Array,
        truncated: Array,
    ) -> None:
        for environment in range(rewards.shape[1]):
            next_value, next_advantage = last_values[environment], np.float32(0)
            for step in range(rewards.shape[0] - 1, -1, -1):
                ended = terminated[step, environment] or truncated[step, environment]
                goes_on = np.float32(0) if ended else np.float32(1)
                bootstrap = bootstrap_values[step, environment] if truncated[step, environment] else np.float32(0)
                value = values[step, environment]
                delta = rewards[step, environment] + gamma * bootstrap + gamma * next_value * goes_on - value
                next_advantage = delta + decay * goes_on * next_advantage
                next_value = value
                advantages[step, environment] = next_advantage

    return scan
