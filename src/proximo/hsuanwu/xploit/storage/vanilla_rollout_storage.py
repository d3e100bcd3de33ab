"""Hsuanwu's rollout storage: the memory of the library's rollout buffer behind [time, env, 1] tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proximo.data import Array
from proximo.hsuanwu.common.spaces import make_action_space, observation_box
from proximo.rllte.xploit.storage import VanillaRolloutStorage as RllteStorage
from proximo.rllte.xploit.storage.rollout_storage import RolloutBatch
from proximo.rollout.storage import RolloutBuffer, allocate_observations

PER_SAMPLE = ("values", "returns", "terminateds", "truncateds", "old_log_probs", "adv_targ")


class VanillaRolloutStorage:
    """``num_steps`` steps of ``num_envs`` environments.

    ``obs`` is [time + 1, env, *obs_shape], its last row what followed the last step; ``actions`` is
    [time, env, *action_shape], with one column for Discrete actions; ``rewards``, ``terminateds``, ``truncateds``,
    ``log_probs``, ``values``, ``returns`` and ``advantages`` are [time, env, 1]. On the CPU, numbers are views: writing
    into them writes into the storage. Images (three dimensions) are kept as bytes unless floats are added.
    """

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
        for name, share in (("discount", discount), ("gae_lambda", gae_lambda)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name} is {share}; expected a number from 0 to 1")
        self.obs_shape = tuple(obs_shape)
        self.action_space = make_action_space(action_type, tuple(action_shape))
        self.action_type = action_type
        self.num_steps, self.num_envs = num_steps, num_envs
        self._options: dict[str, Any] = {"discount": discount, "gae_lambda": gae_lambda, "device": device}
        self._allocate(np.uint8 if len(self.obs_shape) == 3 else np.float32)

    def _allocate(self, dtype: type[np.uint8 | np.float32]) -> None:
        space = observation_box(self.obs_shape, dtype)
        self._storage = RllteStorage(
            space, self.action_space, storage_size=self.num_steps, num_envs=self.num_envs, **self._options
        )
        self._observations: Array = allocate_observations(space, (self.num_steps + 1, self.num_envs))  # type: ignore[assignment]
        self.buffer.rollout.observations = self._observations[:-1]
        self.estimated = False  # whether returns and advantages are those of what is stored

    @property
    def buffer(self) -> RolloutBuffer:
        """The library's memory: its collector fills it, its learners read it."""
        return self._storage.buffer

    @property
    def device(self) -> torch.device:
        return self._storage.device

    @property
    def step(self) -> int:
        """Steps that are stored."""
        return self._storage.step

    @property
    def full(self) -> bool:
        return self._storage.full

    def add(
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
        rows = {name: self._row(name, given) for name, given in numbers.items()}
        self.fit_number_type(np.uint8 if obs.dtype == torch.uint8 else np.float32)
        self.estimated = False
        self._storage.add(obs, actions, infos=None, next_observations=next_obs, **rows)  # type: ignore[arg-type]
        if next_obs is not None:
            self.store_next_observations(next_obs.detach().cpu().numpy())

    def _check_shape(self, name: str, given: Tensor, shape: tuple[int, ...]) -> None:
        if tuple(given.shape) != (self.num_envs, *shape):
            raise ValueError(
                f"{name} has shape {tuple(given.shape)}, the storage keeps {(self.num_envs, *shape)} ([env, …])"
            )

    def _row(self, name: str, given: Tensor) -> Tensor:
        if given.numel() != self.num_envs:
            raise ValueError(
                f"{name} has shape {tuple(given.shape)}; expected one number for each of {self.num_envs} environments"
            )
        return given.reshape(-1)

    def fit_number_type(self, dtype: Any) -> None:
        """Keep observations of this NumPy type: bytes would cut floats to whole numbers."""
        if self.buffer.observation_space.dtype != np.uint8 or dtype == np.uint8:
            return
        if self.step not in (0, self.num_steps):
            raise TypeError(f"observations of {dtype} came at step {self.step}, those before were bytes")
        self._allocate(np.float32)

    def store_next_observations(self, observations: Array) -> None:
        """What followed the latest step: [env, …]."""
        self._observations[self.step] = observations

    def compute_returns_and_advantages(self, last_values: Tensor) -> None:
        """GAE from the values of what followed the last step, [env, 1]; advantages are normalised over the rollout."""
        if not self.full:
            raise ValueError(f"the storage holds {self.step} of {self.num_steps} steps; add() the others first")
        self._storage.compute_returns_and_advantages(self._row("last_values", last_values))
        self.estimated = True

    def generator(self, num_mini_batch: int = 8) -> Iterator[RolloutBatch]:
        """One epoch of ``num_mini_batch`` minibatches in random order.

        Each is (observations, actions, values, returns, terminateds, truncateds, old_log_probs, adv_targ); from the
        third on, [batch, 1].
        """
        self._storage.batch_size = self.batch_size(num_mini_batch)
        for batch in self._storage.sample():
            columns = {name: getattr(batch, name).unsqueeze(1) for name in PER_SAMPLE}
            yield batch._replace(actions=batch.actions.reshape(-1, *self._columns), **columns)

    def batch_size(self, num_mini_batch: int, name: str = "num_mini_batch") -> int:
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
        self._observations[0] = self._observations[-1]
        self.reset()

    def reset(self) -> None:
        """Forget what is stored."""
        self._storage.reset()
        self.estimated = False

    # -- the memory as tensors

    @property
    def _columns(self) -> tuple[int, ...]:
        return (1,) if self.action_type == "Discrete" else self.action_space.shape or ()

    @property
    def obs(self) -> Tensor:
        return torch.as_tensor(self._observations, device=self.device)

    @property
    def actions(self) -> Tensor:
        return self._storage.actions.reshape(self.num_steps, self.num_envs, *self._columns)

    @property
    def rewards(self) -> Tensor:
        return self._storage.rewards.unsqueeze(-1)

    @rewards.setter
    def rewards(self, rewards: Tensor) -> None:
        self._storage.rewards = rewards.reshape(self.num_steps, self.num_envs)
        self.estimated = False

    @property
    def terminateds(self) -> Tensor:
        return self._storage.terminateds.unsqueeze(-1)

    @property
    def truncateds(self) -> Tensor:
        return self._storage.truncateds.unsqueeze(-1)

    @property
    def log_probs(self) -> Tensor:
        return self._storage.log_probs.unsqueeze(-1)

    @property
    def values(self) -> Tensor:
        return self._storage.values.unsqueeze(-1)

    @property
    def returns(self) -> Tensor:
        return self._storage.returns.unsqueeze(-1)

    @property
    def advantages(self) -> Tensor:
        return self._storage.advantages.unsqueeze(-1)
