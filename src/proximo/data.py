"""What the layers hand to each other, with shapes stated once.

``time`` counts steps of a rollout, ``env`` the parallel environments, ``batch`` samples of a minibatch.
An observation is one array, or a dictionary of arrays for a ``Dict`` space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Observation: TypeAlias = Array | dict[str, Array]
TensorObservation: TypeAlias = torch.Tensor | dict[str, torch.Tensor]
Info: TypeAlias = dict[str, Any]
Schedule: TypeAlias = Callable[[float], float]  # progress remaining, 1 → 0
State: TypeAlias = tuple[torch.Tensor, ...]  # each [layer, env, hidden]: (hidden, cell) of an LSTM, (hidden,) of a GRU


def observation_rows(observation: Observation, index: Any) -> Observation:
    """``observation[index]``, for a plain array and for a dictionary of arrays alike."""
    if isinstance(observation, dict):
        return {key: value[index] for key, value in observation.items()}
    return observation[index]


def map_observation(function: Callable[..., Any], observation: Any, *others: Any) -> Any:
    """``function`` of a plain array, or of each array in a dictionary; ``others`` have the same keys.

    >>> map_observation(np.ndim, {"camera": np.zeros((2, 8, 8)), "speed": np.zeros(2)})
    {'camera': 3, 'speed': 1}
    """
    if isinstance(observation, dict):
        return {key: function(part, *(other[key] for other in others)) for key, part in observation.items()}
    return function(observation, *others)


def observation_parts(observation: Any) -> list[Any]:
    """The arrays of an observation: one, or those of a dictionary."""
    return list(observation.values()) if isinstance(observation, dict) else [observation]


def write_observation(memory: Observation, index: Any, observation: Observation) -> None:
    """``memory[index] = observation``, for a plain array and for a dictionary of arrays alike."""
    if isinstance(memory, dict):
        for key, rows in memory.items():
            rows[index] = observation[key]
    else:
        memory[index] = observation


def join_observations(observations: Sequence[Observation]) -> Observation:
    """Batches [batch, …] of observations, one after the other."""
    return map_observation(lambda *parts: np.concatenate(parts), *observations)


@dataclass(frozen=True)
class Share:
    """Which rows of those that all processes of a training have together are one process's.

    Arguments:
        first: The first row that is this process's.
        count: How many rows are.
        total: Rows of all processes together.
    """

    first: int
    count: int
    total: int

    @property
    def rows(self) -> slice:
        """This process's rows, as a slice."""
        return slice(self.first, self.first + self.count)


class StepArrays(NamedTuple):
    """One step of a vector environment, as arrays.

    ``terminated`` and ``truncated`` stay two flags; an environment that ended has already been reset, so its row of
    ``observations`` opens the next episode, and its last observation is in ``final_observations``.
    Arrays may be reused by the environment at its next step: whoever keeps them copies them.
    """

    observations: Observation  # [env, …]
    rewards: Array  # [env] float32
    terminated: Array  # [env] bool
    truncated: Array  # [env] bool, never together with terminated
    final_observations: Mapping[int, Observation]  # env index → last observation of the episode that ended here
    infos: Mapping[int, Info]  # env index → info, at least for the environments whose episode ended here
    valid: Array | None = None  # [env] bool; False where the step only reset the environment (the action was ignored)


class RNNStates(NamedTuple):
    """The memory of policy and value network.

    Arguments:
        pi: State of the policy's memory: hidden and, for an LSTM, cell, [layer, env, hidden] each.
        vf: State of the value's memory; empty where it has none.
    """

    pi: State
    vf: State

    def parts(self) -> list[torch.Tensor]:
        """All arrays of both states, one after the other."""
        return [*self.pi, *self.vf]

    def shapes(self) -> list[torch.Size]:
        """Their shapes."""
        return [part.shape for part in self.parts()]

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> RNNStates:
        """The same with each part replaced."""
        return RNNStates(tuple(map(function, self.pi)), tuple(map(function, self.vf)))


@dataclass
class IntrinsicStream:
    """Values and returns of an intrinsic reward that are kept apart from those of the environment's reward."""

    values: Array  # [time, env] float32: the second value of each observation
    last_values: Array  # [env] float32: that of the observation after the last step
    returns: Array  # [time, env] float32


@dataclass
class Rollout:
    """``time`` steps of ``env`` environments under one policy."""

    observations: Observation  # [time, env, …] in the dtype of the space
    actions: Array  # [time, env, action]
    rewards: Array  # [time, env] float32
    values: Array  # [time, env] float32: V(observation)
    log_probs: Array  # [time, env] float32
    episode_starts: Array  # [time, env] bool: this step opens an episode
    terminated: Array  # [time, env] bool
    truncated: Array  # [time, env] bool
    bootstrap_values: Array  # [time, env] float32: V(final observation) where truncated, else 0
    advantages: Array  # [time, env] float32
    returns: Array  # [time, env] float32
    last_values: Array  # [env] float32: V(observation after the last step)
    valid: Array | None = None  # [time, env] bool; None when every row is a real step
    action_masks: Array | None = None  # [time, env, mask] bool: true where an action is allowed
    sequence_length: int = 0  # steps per training sequence of a policy with memory; 0 for one without
    states: RNNStates | None = None  # its memory where sequences begin, each part [sequence, layer, env, hidden]
    intrinsic_rewards: Array | None = None  # [time, env] float32: part of the rewards, or beside them as follows
    own_stream: IntrinsicStream | None = None  # of an intrinsic reward with a value of its own
    share: Share | None = None  # where each process learns from its own environments: which of all these are
    valid_of_all: Array | None = None  # ``valid`` of all processes' environments, in that case

    @property
    def steps(self) -> int:
        """Steps per environment."""
        return int(self.rewards.shape[0])

    @property
    def environments(self) -> int:
        """Number of environments."""
        return int(self.rewards.shape[1])

    @property
    def environments_of_all(self) -> int:
        """Environments of all processes that learn together, each from its own."""
        return self.environments if self.share is None else self.share.total

    def sample_indices(self) -> NDArray[np.int64]:
        """Flat indices (``step * environments + environment``) of the rows that may train, of all processes."""
        valid = self.valid if self.share is None else self.valid_of_all
        if valid is None:
            return np.arange(self.steps * self.environments_of_all)
        return np.flatnonzero(valid.reshape(-1))

    def training_indices(self) -> NDArray[np.int64]:
        """What an epoch goes through in random order: the rows that may train, or all sequences."""
        if not self.sequence_length:
            return self.sample_indices()
        return np.arange(-(-self.steps // self.sequence_length) * self.environments_of_all)


class Minibatch(NamedTuple):
    """Samples of a rollout on the learner's device."""

    observations: TensorObservation  # [batch, …]
    actions: torch.Tensor  # [batch, action]
    old_values: torch.Tensor  # [batch]; [batch, 2] where an intrinsic reward has a value of its own, and so are returns
    old_log_prob: torch.Tensor  # [batch]
    advantages: torch.Tensor  # [batch]
    returns: torch.Tensor  # [batch]
    action_masks: torch.Tensor | None = None  # [batch, mask]
    # for a policy with memory, whose batches are whole sequences: [sequence · time, …]
    episode_starts: torch.Tensor | None = None  # [batch]
    lstm_states: RNNStates | None = None  # what the sequences begin with, each part [layer, sequence, hidden]
    valid: torch.Tensor | None = None  # [batch] bool: rows that train

    @property
    def mask(self) -> torch.Tensor:
        """[batch] float: 1 for rows that train, as sb3-contrib has it."""
        return torch.ones_like(self.advantages) if self.valid is None else self.valid.to(self.advantages.dtype)


Metrics: TypeAlias = dict[str, float]
