"""A rollout buffer behind tensors, as the agents of rllte and Hsuanwu fill and read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from proximo.data import Array, Minibatch, Observation, TensorObservation, observation_rows, write_observation
from proximo.functional.losses import normalize
from proximo.functional.spaces import Space, describe_action_space, get_obs_shape, obs_as_tensor
from proximo.networks.actor_critic import get_device
from proximo.rollout.minibatches import on_device, take
from proximo.rollout.storage import RolloutBuffer, allocate_observations, estimate


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


class BaseStorage(ABC):
    """Keeps the samples of ``storage_size`` steps of ``num_envs`` environments."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        device: torch.device | str,
        storage_size: int,
        batch_size: int,
        num_envs: int,
    ) -> None:
        """Arguments:
        observation_space: The space of one observation.
        action_space: The space of one action.
        device: Where tensors live: cpu, cuda, …
        storage_size: Steps per environment.
        batch_size: Samples per minibatch.
        num_envs: Number of environments.
        """
        for name, size in (("storage_size", storage_size), ("batch_size", batch_size), ("num_envs", num_envs)):
            if size < 1:
                raise ValueError(f"{name} is {size}; expected at least 1")
        self.observation_space, self.action_space = observation_space, action_space
        self.device = get_device(device)
        self.storage_size, self.batch_size, self.num_envs = storage_size, batch_size, num_envs
        self.obs_shape = get_obs_shape(observation_space)
        self.action_shape, self.action_dim, self.policy_action_dim, self.action_type = describe_action_space(
            action_space
        )

    def to_torch(self, x: Any) -> Tensor:
        """An array as a float tensor on the storage's device."""
        return torch.as_tensor(x, device=self.device).float()

    @abstractmethod
    def reset(self) -> None:
        """Forget what is stored."""

    @abstractmethod
    def add(self, *args: Any, **kwargs: Any) -> None:
        """Store one step of all environments."""

    @abstractmethod
    def sample(self) -> Any:
        """Minibatches."""

    @abstractmethod
    def update(self) -> None:
        """Called after every update of the agent."""


def _numbers(name: str) -> Any:
    """A property that shows one of the rollout's arrays as a tensor; what is assigned goes into its memory."""

    def read(storage: VanillaRolloutStorage) -> Tensor:
        numbers = storage._tensor(getattr(storage.buffer.rollout, name))
        return numbers.float() if numbers.dtype == torch.bool else numbers

    def write(storage: VanillaRolloutStorage, values: Tensor) -> None:
        memory = getattr(storage.buffer.rollout, name)
        memory[:] = _array(values).reshape(memory.shape)

    return property(read, write, doc=f"The rollout's {name.replace('_', ' ')} as a tensor, [time, env, …].")


def _array(values: Any) -> Any:
    """Tensors, or a dictionary of them, as arrays."""
    if isinstance(values, dict):
        return {key: _array(value) for key, value in values.items()}
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


class SampledBuffer(RolloutBuffer):
    """The memory of a storage that samples or estimates advantages in its own way: collector and learners ask it."""

    storage: VanillaRolloutStorage

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Count a step that the collector has written into the memory already."""
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def compute_returns_and_advantage(self, last_values: Tensor, dones: Array) -> None:
        self.storage.compute_returns_and_advantages(last_values.unsqueeze(1))

    def get(self, batch_size: int | None = None) -> Iterator[Minibatch]:
        for batch in self.storage.sample():
            yield Minibatch(
                observations=batch.observations,
                actions=batch.actions.reshape(-1, self.action_dim),
                old_values=batch.values,
                old_log_prob=batch.old_log_probs,
                advantages=batch.adv_targ,
                returns=batch.returns,
            )


class VanillaRolloutStorage(BaseStorage):
    """``storage_size`` steps of ``num_envs`` environments; every field is [time, env, …].

    ``observations`` has one row more, what followed the last step. An agent fills ``buffer`` through the library's
    collector. By hand: :meth:`add` each step, :meth:`compute_returns_and_advantages`, then :meth:`sample`.
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
        """Arguments:
        observation_space: The space of one observation.
        action_space: The space of one action.
        device: Where tensors live: cpu, cuda, …
        storage_size: Steps per environment.
        batch_size: Samples per minibatch.
        num_envs: Number of environments.
        discount: Discount factor.
        gae_lambda: Bias against variance of the advantage estimate; 1 is the Monte-Carlo return.
        """
        super().__init__(observation_space, action_space, device, storage_size, batch_size, num_envs)
        for name, share in (("discount", discount), ("gae_lambda", gae_lambda)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name} is {share}; expected a number from 0 to 1")
        self.discount, self.gae_lambda = discount, gae_lambda
        self._allocate(observation_space)

    def _allocate(self, observation_space: Space) -> None:
        kind = SampledBuffer if self.decides() else RolloutBuffer
        self.buffer = kind(
            self.storage_size, observation_space, self.action_space, self.device, self.gae_lambda, self.discount,
            self.num_envs,
        )  # fmt: skip
        if isinstance(self.buffer, SampledBuffer):
            self.buffer.storage = self
        self._observations = allocate_observations(observation_space, (self.storage_size + 1, self.num_envs))
        self.buffer.rollout.observations = observation_rows(self._observations, slice(0, self.storage_size))

    @classmethod
    def decides(cls) -> bool:
        """Whether a subclass has its own way to sample or to estimate advantages."""
        stock = VanillaRolloutStorage
        own = ("sample", "compute_returns_and_advantages")
        return any(getattr(cls, name) is not getattr(stock, name) for name in own)

    def reset(self) -> None:
        self.buffer.reset()

    @property
    def step(self) -> int:
        """Steps that are stored."""
        return self.buffer.pos

    @property
    def full(self) -> bool:
        """Whether all steps are there."""
        return self.buffer.full

    def add(
        self,
        observations: TensorObservation,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        infos: Any,
        next_observations: TensorObservation | None,
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
        RolloutBuffer.add(self.buffer, _array(observations), _array(actions), _array(rewards), ended, values, log_probs)
        rollout.terminated[step] = _array(terminateds).astype(bool)
        rollout.truncated[step] = _array(truncateds).astype(bool) & ~rollout.terminated[step]
        remaining = rollout.values[step] if bootstrap_values is None else _array(bootstrap_values).reshape(-1)
        rollout.bootstrap_values[step] = np.where(rollout.truncated[step], remaining, 0.0)
        if next_observations is not None:
            self.store_next_observations(_array(next_observations))

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

    def store_next_observations(self, observations: Observation) -> None:
        """What followed the latest step: [env, …]."""
        write_observation(self._observations, self.step, observations)

    def compute_returns_and_advantages(self, last_values: Tensor) -> None:
        """GAE; afterwards the advantages get zero mean and unit deviation over the whole rollout."""
        rollout = self.buffer.rollout
        rollout.last_values[:] = _array(last_values).reshape(-1)
        estimate(self.buffer)
        self.normalize_advantages()

    def normalize_advantages(self) -> None:
        """Zero mean and unit deviation over the steps that train."""
        rows, flat = self.buffer.rollout.sample_indices(), self.buffer.rollout.advantages.reshape(-1)
        flat[rows] = normalize(torch.from_numpy(flat[rows])).numpy()

    def update(self) -> None:
        """The next rollout begins where this one ended; the collector knows where episodes start."""
        write_observation(self._observations, 0, observation_rows(self._observations, -1))

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
        """Observations, [time + 1, env, …]."""
        return obs_as_tensor(self._observations, self.device)

    @property
    def actions(self) -> Tensor:
        """Actions, [time, env, …]."""
        return torch.as_tensor(self.buffer.rollout.actions, device=self.device)

    rewards, values, log_probs, returns, advantages = (
        _numbers(name) for name in ("rewards", "values", "log_probs", "returns", "advantages")
    )
    terminateds, truncateds = (_numbers(name) for name in ("terminated", "truncated"))

    def _tensor(self, array: Array) -> Tensor:
        return torch.as_tensor(array, device=self.device)


class DictRolloutStorage(VanillaRolloutStorage):
    """The same for Dict observations: ``observations`` is a dictionary of tensors."""

    def __init__(self, observation_space: Space, *args: Any, **kwargs: Any) -> None:
        """Arguments:
        observation_space: A Dict space.
        """
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(f"DictRolloutStorage keeps Dict observations, got {observation_space}")
        super().__init__(observation_space, *args, **kwargs)
