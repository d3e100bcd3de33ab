"""Rollout storages in rllte's shape; the memory inside is the library's rollout buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from proximo.data import Array, Minibatch, TensorObservation
from proximo.functional.losses import normalize
from proximo.functional.spaces import Space, obs_as_tensor
from proximo.rllte.xploit.storage.base import BaseStorage
from proximo.rollout.minibatches import on_device, take
from proximo.rollout.storage import RolloutBuffer, estimate_advantages


class RolloutBatch(NamedTuple):
    """A minibatch; rewards are not in it, returns and advantages are what they became."""

    observations: TensorObservation  # [batch, …] in the dtype of the space
    actions: Tensor  # [batch, *action]
    values: Tensor  # [batch]
    returns: Tensor  # [batch]
    terminateds: Tensor  # [batch]: whether the sample's own step ended its episode
    truncateds: Tensor  # [batch]
    old_log_probs: Tensor  # [batch]
    adv_targ: Tensor  # [batch]: advantages, normalised over the whole rollout


class VanillaRolloutStorage(BaseStorage):
    """``storage_size`` steps of ``num_envs`` environments; every field is [time, env, …].

    An agent fills ``buffer`` through the library's collector. By hand: :meth:`add` each step,
    :meth:`compute_returns_and_advantages`, then :meth:`sample`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        device: torch.device | str = "cpu",
        storage_size: int = 256,
        batch_size: int = 64,
        num_envs: int = 8,
        discount: float = 0.999,
        gae_lambda: float = 0.95,
    ) -> None:
        super().__init__(observation_space, action_space, device, storage_size, batch_size, num_envs)
        self.discount, self.gae_lambda = discount, gae_lambda
        self.buffer = RolloutBuffer(
            storage_size, observation_space, action_space, self.device, gae_lambda, discount, num_envs
        )

    def reset(self) -> None:
        self.buffer.reset()

    @property
    def step(self) -> int:
        return self.buffer.pos

    @property
    def full(self) -> bool:
        return self.buffer.full

    def add(
        self,
        observations: TensorObservation,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        infos: Any,
        next_observations: TensorObservation,
        log_probs: Tensor,
        values: Tensor,
        bootstrap_values: Tensor | None = None,
    ) -> None:
        """Append one step of all environments; a full storage begins again.

        ``bootstrap_values`` [env] are the values of the final observations where ``truncateds``; without them the
        value of the step's own observation, one step earlier, stands in.
        """
        if self.full:
            self.reset()
        step, rollout = self.step, self.buffer.rollout
        ended = rollout.terminated[step - 1] | rollout.truncated[step - 1] if step else np.zeros(self.num_envs, bool)
        self.buffer.add(_array(observations), _array(actions), _array(rewards), ended, values, log_probs)
        rollout.terminated[step] = _array(terminateds).astype(bool)
        rollout.truncated[step] = _array(truncateds).astype(bool) & ~rollout.terminated[step]
        remaining = rollout.values[step] if bootstrap_values is None else _array(bootstrap_values).reshape(-1)
        rollout.bootstrap_values[step] = np.where(rollout.truncated[step], remaining, 0.0)

    def compute_returns_and_advantages(self, last_values: Tensor) -> None:
        """GAE; afterwards the advantages get zero mean and unit deviation over the whole rollout."""
        rollout = self.buffer.rollout
        rollout.last_values[:] = _array(last_values).reshape(-1)
        estimate_advantages(self.buffer, rollout.terminated[-1] | rollout.truncated[-1])
        rows = rollout.sample_indices()
        flat = rollout.advantages.reshape(-1)
        flat[rows] = normalize(torch.from_numpy(flat[rows])).numpy()

    def update(self) -> None:
        """Nothing to do: the collector knows where episodes start."""

    def sample(self) -> Iterator[RolloutBatch]:
        """One epoch of minibatches in random order (NumPy's global generator); the last may be shorter."""
        if not self.full:
            raise ValueError(f"the storage holds {self.step} of {self.storage_size} steps; fill it before sample()")
        rollout = self.buffer.rollout
        whole = on_device(rollout, self.device)
        flags = [
            torch.as_tensor(flag.reshape(-1), device=self.device) for flag in (rollout.terminated, rollout.truncated)
        ]
        order = np.random.permutation(rollout.sample_indices())  # noqa: NPY002 - the generator that users seed
        for rows in torch.as_tensor(order, device=self.device).split(self.batch_size):
            batch = take(whole, rows)
            yield RolloutBatch(
                observations=batch.observations,
                actions=batch.actions.reshape(-1, *self.action_shape),
                values=batch.old_values,
                returns=batch.returns,
                terminateds=flags[0][rows].float(),
                truncateds=flags[1][rows].float(),
                old_log_probs=batch.old_log_prob,
                adv_targ=batch.advantages,
            )

    # the memory, as tensors: views of it on the CPU

    @property
    def observations(self) -> TensorObservation:
        return obs_as_tensor(self.buffer.rollout.observations, self.device)

    @property
    def actions(self) -> Tensor:
        return self._tensor(self.buffer.rollout.actions)

    @property
    def rewards(self) -> Tensor:
        return self._tensor(self.buffer.rollout.rewards)

    @rewards.setter
    def rewards(self, rewards: Tensor) -> None:
        self.buffer.rollout.rewards[:] = _array(rewards)

    @property
    def terminateds(self) -> Tensor:
        return self._tensor(self.buffer.rollout.terminated).float()

    @property
    def truncateds(self) -> Tensor:
        return self._tensor(self.buffer.rollout.truncated).float()

    @property
    def log_probs(self) -> Tensor:
        return self._tensor(self.buffer.rollout.log_probs)

    @property
    def values(self) -> Tensor:
        return self._tensor(self.buffer.rollout.values)

    @property
    def returns(self) -> Tensor:
        return self._tensor(self.buffer.rollout.returns)

    @returns.setter
    def returns(self, returns: Tensor) -> None:
        self.buffer.rollout.returns[:] = _array(returns)

    @property
    def advantages(self) -> Tensor:
        return self._tensor(self.buffer.rollout.advantages)

    @advantages.setter
    def advantages(self, advantages: Tensor) -> None:
        self.buffer.rollout.advantages[:] = _array(advantages)

    def _tensor(self, array: Array) -> Tensor:
        return torch.as_tensor(array, device=self.device)


class DictRolloutStorage(VanillaRolloutStorage):
    """The same for Dict observations: ``observations`` is a dictionary of tensors."""

    def __init__(self, observation_space: Space, *args: Any, **kwargs: Any) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(f"DictRolloutStorage keeps Dict observations, got {observation_space}")
        super().__init__(observation_space, *args, **kwargs)


class StorageBatches(RolloutBuffer):
    """A storage's minibatches for the library's learners: what :meth:`sample` of the storage gives, augmented."""

    def __init__(self, storage: VanillaRolloutStorage, augmentation: Any = None) -> None:
        vars(self).update(vars(storage.buffer))  # another view of the same memory
        self.storage = storage
        self.augmentation = augmentation

    def get(self, batch_size: int | None = None) -> Iterator[Minibatch]:
        for batch in self.storage.sample():
            observations = batch.observations
            if self.augmentation is not None:
                observations = self.augmentation(observations)
            yield Minibatch(
                observations=observations,
                actions=batch.actions.reshape(-1, self.action_dim),
                old_values=batch.values,
                old_log_prob=batch.old_log_probs,
                advantages=batch.adv_targ,
                returns=batch.returns,
            )


def _array(values: Any) -> Any:
    """Tensors, or a dictionary of them, as arrays."""
    if isinstance(values, dict):
        return {key: _array(value) for key, value in values.items()}
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
