"""Rollout buffers of Stable-Baselines3's class, such as sb3-extra-buffers', beside the library's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from proximo.data import Array, Minibatch
from proximo.rollout.storage import RolloutBuffer


class AdaptedRolloutBuffer(RolloutBuffer):
    """Hands each step on to ``inner``, whose advantages and minibatches are what trains.

    Attributes that the library's buffer does not have are those of ``inner``.
    """

    def __init__(self, inner: Any) -> None:
        """Arguments:
        inner: The buffer of Stable-Baselines3's that is filled beside.
        """
        self.inner = inner
        super().__init__(
            inner.buffer_size,
            inner.observation_space,
            inner.action_space,
            device=inner.device,
            gae_lambda=inner.gae_lambda,
            gamma=inner.gamma,
            n_envs=inner.n_envs,
        )

    @property
    def observations(self) -> Any:
        """As ``inner`` keeps them, compressed say; the collector's own rows are in ``rollout``."""
        return self.inner.observations

    def reset(self) -> None:
        super().reset()
        self.inner.reset()

    def add(self, *step: Any, **more: Any) -> None:
        self.inner.add(*step, **more)
        self.pos, self.full = self.inner.pos, self.inner.full

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: Array) -> None:
        self.inner.gamma, self.inner.gae_lambda = self.gamma, self.gae_lambda  # a callback may have changed them
        if self.rollout.valid is not None:
            raise ValueError(
                f"steps that must not train (of environments that only reset, that failed, or were not finite) cannot "
                f"be kept apart by {type(self.inner).__name__}; leave rollout_buffer_class out"
            )
        self.inner.rewards = self.rollout.rewards + self.gamma * self.rollout.bootstrap_values  # as they were shaped
        self.inner.compute_returns_and_advantage(last_values, dones)
        self.advantages, self.returns = self.inner.advantages, self.inner.returns

    def get(self, batch_size: int | None = None) -> Iterator[Minibatch]:
        return (Minibatch(*samples[:6]) for samples in self.inner.get(batch_size))

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.inner, name)
