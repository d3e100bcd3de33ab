"""Hsuanwu's rollout storage: the library's behind [time, env, 1] tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proximo.data import Array
from proximo.hsuanwu.described_spaces import make_action_space, observation_box
from proximo.rollout import tensor_storage
from proximo.rollout.tensor_storage import RolloutBatch

PER_SAMPLE = ("values", "returns", "terminateds", "truncateds", "old_log_probs", "adv_targ")


class VanillaRolloutStorage(tensor_storage.VanillaRolloutStorage):
    """``num_steps`` steps of ``num_envs`` environments.

    ``obs`` is [time + 1, env, *obs_shape], its last row what followed the last step; ``actions`` is
    [time, env, *action_shape], with one column for Discrete actions; ``rewards``, ``terminateds``, ``truncateds``,
    ``log_probs``, ``values``, ``returns`` and ``advantages`` are [time, env, 1]. On the CPU, numbers are views: writing
    into them writes into the storage. Images (three dimensions) are kept as bytes unless floats are added.
    """

    obs_shape: tuple[int, ...]

    def __init__(
        self,
        device: torch.device | str,
        obs_shape: Sequence[int],
        action_shape: Sequence[int],
        action_type: str,
        num_steps: int,
        num_envs: int,
        discount: float = 0.99,
        gae_lambda: float = 0.95,
    ) -> None:
        """Arguments:
        device: Where tensors live: cpu, cuda, …
        obs_shape: Shape of one observation.
        action_shape: Shape of one action; the number of actions for Discrete.
        action_type: Discrete, Box or MultiBinary.
        num_steps: Steps per environment and rollout.
        num_envs: Number of environments.
        discount: Discount factor.
        gae_lambda: Bias against variance of the advantage estimate; 1 is the Monte-Carlo return.
        """
        space = observation_box(tuple(obs_shape), np.uint8 if len(obs_shape) == 3 else np.float32)
        actions = make_action_space(action_type, tuple(action_shape))
        self.estimated = False  # whether returns and advantages are those of what is stored
        super().__init__(
            space, actions, device, storage_size=num_steps, num_envs=num_envs, discount=discount, gae_lambda=gae_lambda
        )
        self.num_steps = num_steps

    def add(  # type: ignore[override]
        self,
        obs: Tensor,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        log_probs: Tensor,
        values: Tensor,
        next_obs: Tensor | None = None,
        bootstrap_values: Tensor | None = None,
    ) -> None:
        """Append one step of all environments: [env, …] each, or [env, 1]; a full storage begins again.

        ``bootstrap_values`` are the values of the final observations where ``truncateds``; without them the value of
        the step's own observation, one step earlier, stands in.
        """
        for name, observations in (("obs", obs), ("next_obs", next_obs)):
            if observations is not None:
                self._check_shape(name, observations, self.obs_shape)
        self._check_shape("actions", actions.reshape(len(actions), -1), (math.prod(self._columns),))
        numbers = {
            "rewards": rewards,
            "terminateds": terminateds,
            "truncateds": truncateds,
            "log_probs": log_probs,
            "values": values,
        }
        if bootstrap_values is not None:
            numbers["bootstrap_values"] = bootstrap_values
        rows: dict[str, Any] = {name: self._row(name, given) for name, given in numbers.items()}
        self.fit_number_type(np.uint8 if obs.dtype == torch.uint8 else np.float32)
        self.estimated = False
        super().add(obs, actions, infos=None, next_observations=next_obs, **rows)

    def fit_number_type(self, dtype: Any) -> None:
        """Keep observations of this NumPy type: bytes would cut floats to whole numbers."""
        if self.buffer.observation_space.dtype != np.uint8 or dtype == np.uint8:
            return
        if self.step not in (0, self.num_steps):
            raise TypeError(f"observations of {dtype} came at step {self.step}, those before were bytes")
        self._allocate(observation_box(self.obs_shape, np.float32))

    def compute_returns_and_advantages(self, last_values: Tensor) -> None:
        """GAE from the values of what followed the last step, [env, 1]; advantages are normalised over the rollout."""
        if not self.full:
            raise ValueError(f"the storage holds {self.step} of {self.num_steps} steps; add() the others first")
        super().compute_returns_and_advantages(self._row("last_values", last_values))
        self.estimated = True

    @classmethod
    def decides(cls) -> bool:
        return False

    def generator(self, num_mini_batch: int = 8) -> Iterator[RolloutBatch]:
        """One epoch of ``num_mini_batch`` minibatches in random order.

        Each is (observations, actions, values, returns, terminateds, truncateds, old_log_probs, adv_targ); from the
        third on, [batch, 1].
        """
        self.batch_size = self.minibatch_size(num_mini_batch)
        for batch in self.sample():
            columns = {name: getattr(batch, name).unsqueeze(1) for name in PER_SAMPLE}
            yield batch._replace(actions=batch.actions.reshape(-1, *self._columns), **columns)

    def minibatch_size(self, num_mini_batch: int, name: str = "num_mini_batch") -> int:
        """Samples per minibatch when the rollout is cut into ``num_mini_batch`` equal ones."""
        samples = self.num_steps * self.num_envs
        if num_mini_batch < 1 or samples % num_mini_batch:
            raise ValueError(
                f"{name} {num_mini_batch} does not divide the {samples} samples of a rollout "
                f"(num_steps {self.num_steps} * num_envs {self.num_envs})"
            )
        return samples // num_mini_batch

    def update(self) -> None:
        """Begin the next rollout where this one ended."""
        super().update()
        self.reset()

    def reset(self) -> None:
        """Forget what is stored."""
        super().reset()
        self.estimated = False

    # -- the memory as tensors

    @property
    def _columns(self) -> tuple[int, ...]:
        return (1,) if self.action_type == "Discrete" else self.action_shape

    @property
    def obs(self) -> Tensor:
        """Observations, [time + 1, env, …]."""
        found: Tensor = self.observations  # type: ignore[assignment]
        return found

    @property
    def actions(self) -> Tensor:
        """Actions, [time, env, …]."""
        return super().actions.reshape(self.num_steps, self.num_envs, *self._columns)

    def _tensor(self, array: Array) -> Tensor:
        return super()._tensor(array).unsqueeze(-1)
