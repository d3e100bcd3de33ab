"""The memory of a rollout, allocated once and reused, in the shape of Stable-Baselines3's buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from proximo.data import Array, IntrinsicStream, Minibatch, Observation, Rollout
from proximo.errors import ArgumentValueError
from proximo.files.encoding import register_class
from proximo.functional import advantages
from proximo.functional.actions import mask_groups, stored_action_dtype
from proximo.functional.spaces import Space, get_action_dim, get_obs_shape, is_image_space
from proximo.networks.actor_critic import get_device
from proximo.other_libraries import stands_for
from proximo.rollout.minibatches import epoch_minibatches, on_device


def storage_dtype(space: Space) -> np.dtype[Any]:
    """Images stay uint8; floats are kept in the float32 that networks read."""
    dtype = np.dtype(space.dtype)
    return np.dtype(np.float32) if np.issubdtype(dtype, np.floating) else dtype


def allocate_observations(space: Space, leading: tuple[int, int]) -> Observation:
    """Zeros for observations of a space, [*leading, …], in the number type they are stored with."""
    if isinstance(space, spaces.Dict):
        return {key: allocate_observations(part, leading) for key, part in space.items()}  # type: ignore[misc]
    shape: tuple[int, ...] = get_obs_shape(space)  # type: ignore[assignment]
    if is_image_space(space):
        # channels last in memory, first in shape: what convolutions on a CPU are fastest with, and how images come
        channels, height, width = shape
        return np.moveaxis(np.zeros((*leading, height, width, channels), storage_dtype(space)), -1, -3)
    return np.zeros(leading + shape, storage_dtype(space))


def allocate_rollout(steps: int, environments: int, observation_space: Space, action_space: Space) -> Rollout:
    """A rollout of zeros for ``steps`` steps of ``environments`` environments."""
    shape = (steps, environments)

    def floats() -> Array:
        return np.zeros(shape, np.float32)

    def flags() -> Array:
        return np.zeros(shape, np.bool_)

    return Rollout(
        observations=allocate_observations(observation_space, shape),
        actions=np.zeros((*shape, get_action_dim(action_space)), stored_action_dtype(action_space)),
        rewards=floats(),
        values=floats(),
        log_probs=floats(),
        episode_starts=flags(),
        terminated=flags(),
        truncated=flags(),
        bootstrap_values=floats(),
        advantages=floats(),
        returns=floats(),
        last_values=np.zeros(environments, np.float32),
    )


def allocate_stream(steps: int, environments: int) -> IntrinsicStream:
    """Zeros for the values of an intrinsic reward."""
    shape = (steps, environments)
    return IntrinsicStream(np.zeros(shape, np.float32), np.zeros(environments, np.float32), np.zeros(shape, np.float32))


def _array_of_rollout(name: str) -> Any:
    """A property that shows one of the rollout's arrays; what is assigned goes into its memory."""

    def read(buffer: RolloutBuffer) -> Any:
        return getattr(buffer.rollout, name)

    def write(buffer: RolloutBuffer, values: Array) -> None:
        getattr(buffer.rollout, name)[:] = values

    return property(read, write, doc=f"The rollout's {name.replace('_', ' ')}, [time, env, …].")


@stands_for("stable_baselines3.common.buffers", "RolloutBuffer")
class RolloutBuffer:
    """A rollout that can also be filled step by step with :meth:`add` and read in minibatches with :meth:`get`.

    The library's own collector and learner use ``buffer.rollout`` directly; ``add`` and ``get`` serve users' code and
    subclasses given as ``rollout_buffer_class``.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Space,
        action_space: Space,
        device: torch.device | str = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        """Arguments:
        buffer_size: Steps per environment.
        observation_space: The space of one observation.
        action_space: The space of one action.
        device: Where minibatches go: auto, cpu, cuda, …
        gae_lambda: Bias against variance of the advantage estimate; 1 is the Monte-Carlo return.
        gamma: Discount factor.
        n_envs: Number of environments.
        """
        self.buffer_size = buffer_size
        self.observation_space = observation_space
        self.action_space = action_space
        self.obs_shape = get_obs_shape(observation_space)
        self.action_dim = get_action_dim(action_space)
        self.device = get_device(device)
        self.gae_lambda = gae_lambda
        self.gamma = gamma
        self.n_envs = n_envs
        self.reset()

    def reset(self) -> None:
        """Forget what is stored. The memory itself is kept, and allocated when first needed."""
        self.pos = 0
        self.full = False
        if not hasattr(self, "rollout"):
            self.rollout = allocate_rollout(self.buffer_size, self.n_envs, self.observation_space, self.action_space)
        self.rollout.valid = self.rollout.action_masks = self.rollout.intrinsic_rewards = None

    def size(self) -> int:
        """Steps that are filled."""
        return self.buffer_size if self.full else self.pos

    # the memory under Stable-Baselines3's names, which subclasses read and assign

    @property
    def observations(self) -> Observation:
        """Observations, [time, env, …]."""
        return self.rollout.observations

    actions = _array_of_rollout("actions")
    rewards = _array_of_rollout("rewards")
    values = _array_of_rollout("values")
    log_probs = _array_of_rollout("log_probs")
    episode_starts = _array_of_rollout("episode_starts")
    advantages = _array_of_rollout("advantages")
    returns = _array_of_rollout("returns")

    @property
    def action_masks(self) -> Array | None:
        """[time, env, mask]; None where no actions are masked."""
        return self.rollout.action_masks

    def store_observation(self, step: int, observation: Observation) -> None:
        """Write one vector observation into row ``step``."""
        stored = self.rollout.observations
        if isinstance(stored, dict):
            for key, memory in stored.items():
                memory[step] = np.reshape(observation[key], memory.shape[1:])
        else:
            stored[step] = np.reshape(observation, stored.shape[1:])  # type: ignore[arg-type]

    def add(
        self,
        obs: Observation,
        action: Array,
        reward: Array,
        episode_start: Array,
        value: torch.Tensor,
        log_prob: torch.Tensor,
        action_masks: Array | None = None,
    ) -> None:
        """Append one step of all environments; ``action_masks`` say which actions were allowed, all if None."""
        if self.full:
            raise ValueError(f"the buffer holds all of its {self.buffer_size} steps; call reset() before add()")
        step, rollout = self.pos, self.rollout
        self.store_observation(step, obs)
        rollout.actions[step] = np.reshape(action, rollout.actions.shape[1:])
        rollout.rewards[step] = reward
        rollout.episode_starts[step] = episode_start
        rollout.values[step] = value.detach().cpu().numpy().reshape(-1)
        rollout.log_probs[step] = log_prob.detach().cpu().numpy().reshape(-1)
        if action_masks is not None:
            self._add_masks(action_masks)
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def _add_masks(self, masks: Array) -> None:
        width, rollout = sum(mask_groups(self.action_space)), self.rollout
        if rollout.action_masks is None:
            rollout.action_masks = np.ones((self.buffer_size, self.n_envs, width), np.bool_)
        rollout.action_masks[self.pos] = np.reshape(masks, (self.n_envs, width))

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: Array) -> None:
        """Advantages of what :meth:`add` stored; an episode that starts at a step ended at the step before."""
        rollout = self.rollout
        rollout.terminated[:-1] = rollout.episode_starts[1:]
        rollout.terminated[-1] = dones
        rollout.truncated[:] = False
        rollout.bootstrap_values[:] = 0.0  # whoever adds step by step has put them into the rewards
        rollout.last_values[:] = last_values.detach().cpu().numpy().reshape(-1)
        estimate(self)

    def get(self, batch_size: int | None = None) -> Iterator[Minibatch]:
        """One epoch of minibatches in random order (NumPy's global generator); None is one batch of everything."""
        if not self.full:
            raise ArgumentValueError(f"the buffer holds {self.pos} of {self.buffer_size} steps; fill it before get()")
        batch_size = batch_size or self.buffer_size * self.n_envs
        # the global generator, because user code seeds that one
        order = np.random.permutation(self.rollout.training_indices())  # noqa: NPY002
        whole = on_device(self.rollout, self.device)
        return epoch_minibatches(whole, self.rollout, torch.as_tensor(order, device=self.device), batch_size)

    def epochs(self, orders: NDArray[np.int64], batch_size: int, device: torch.device) -> Iterator[Iterator[Minibatch]]:
        """The minibatches of each epoch, in the given orders [epoch, sample]; the rollout moves to the device once.

        A subclass decides about order and minibatches by its own ``get``.
        """
        if not is_stock(self):
            yield from (self.get(batch_size) for _ in orders)
            return
        whole = on_device(self.rollout, device)
        for order in torch.as_tensor(orders, device=device):
            yield epoch_minibatches(whole, self.rollout, order, batch_size)

    def to_torch(self, array: Array, copy: bool = True) -> torch.Tensor:
        """An array as a tensor on the buffer's device."""
        return torch.tensor(array, device=self.device) if copy else torch.as_tensor(array, device=self.device)

    @staticmethod
    def swap_and_flatten(arr: Array) -> Array:
        """[time, env, …] → [env · time, …]"""
        return arr.swapaxes(0, 1).reshape(arr.shape[0] * arr.shape[1], *(arr.shape[2:] or (1,)))


def estimate_advantages(buffer: RolloutBuffer, dones: Array) -> None:
    """Advantages and returns of a full rollout; a subclass does it by its ``compute_returns_and_advantage``."""
    if is_stock(buffer):
        estimate(buffer)
    else:
        buffer.compute_returns_and_advantage(torch.from_numpy(buffer.rollout.last_values), dones)


def estimate(buffer: RolloutBuffer) -> None:
    """Advantages and returns of what lies in a buffer's memory."""
    rollout = buffer.rollout
    rollout.advantages[:], rollout.returns[:] = advantages.estimate_advantages(
        rollout.rewards,
        rollout.values,
        rollout.terminated,
        rollout.truncated,
        rollout.bootstrap_values,
        rollout.last_values,
        buffer.gamma,
        buffer.gae_lambda,
    )


def put_into_units(rollout: Rollout, change: Callable[[Array], Array]) -> None:
    """Change the units of all values of a rollout, its returns not among them."""
    rollout.values[:] = change(rollout.values)
    rollout.last_values[:] = change(rollout.last_values)
    rollout.bootstrap_values[rollout.truncated] = change(rollout.bootstrap_values[rollout.truncated])


def add_intrinsic_advantages(
    buffer: RolloutBuffer, discount: float, weight: float, extrinsic_coef: float = 1.0
) -> None:
    """A ← extrinsic_coef · A + weight · A_I, after the advantages A of the environment's reward were estimated.

    The intrinsic stream knows no ends of episodes: what an agent has found out stays so in its next episode, so
    V_I of the next episode's first observation follows that of the last one (Burda et al. 2018, section 2.3). Only
    before a row that does not train it is cut, and worth V_I of what comes next.
    """
    rollout, stream = buffer.rollout, buffer.rollout.own_stream
    if stream is None or rollout.intrinsic_rewards is None:
        raise ValueError("the rollout has no intrinsic reward with values of its own (rollout.own_stream)")
    cut = np.zeros(rollout.rewards.shape, np.bool_)
    if rollout.valid is not None:
        cut[:-1] = ~rollout.valid[1:]
    following = np.concatenate([stream.values[1:], stream.last_values[None]])
    intrinsic, stream.returns[:] = advantages.estimate_advantages(
        rollout.intrinsic_rewards,
        stream.values,
        np.zeros_like(cut),
        cut,
        following,
        stream.last_values,
        discount,
        buffer.gae_lambda,
    )
    rollout.advantages[:] = np.float32(extrinsic_coef) * rollout.advantages + np.float32(weight) * intrinsic


def is_stock(buffer: RolloutBuffer) -> bool:
    """Whether a buffer is the library's own, so that its rollout may be filled and read without ``add`` and ``get``."""
    return type(buffer) is RolloutBuffer


register_class("RolloutBuffer", RolloutBuffer)
