"""A rollout buffer that users' own loops fill for a policy with memory, in the shape of sb3-contrib's.

The library's own collector needs none: it stores what is remembered where sequences begin in ``rollout.states``. One
class stores plain and Dict observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from proximo.data import Array, Minibatch
from proximo.data import RNNStates as RNNStates
from proximo.functional.spaces import Space
from proximo.rollout.minibatches import longest_sequence
from proximo.rollout.storage import RolloutBuffer

RecurrentRolloutBufferSamples = Minibatch
RecurrentDictRolloutBufferSamples = Minibatch


class RecurrentRolloutBuffer(RolloutBuffer):
    """Keeps the memory before every step, [time, layer, env, hidden]; minibatches are whole sequences.

    A GRU has no cells, and a value may have no memory of its own: what is not given stays zero and is not given back.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Space,
        action_space: Space,
        hidden_state_shape: tuple[int, int, int, int],
        device: torch.device | str = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        """Arguments:
        buffer_size: Steps per environment.
        observation_space: The space of one observation.
        action_space: The space of one action.
        hidden_state_shape: Shape of one part of the memory, [time, layer, env, hidden].
        device: Where minibatches go: auto, cpu, cuda, …
        gae_lambda: Bias against variance of the advantage estimate; 1 is the Monte-Carlo return.
        gamma: Discount factor.
        n_envs: Number of environments.
        """
        if len(hidden_state_shape) != 4 or (hidden_state_shape[0], hidden_state_shape[2]) != (buffer_size, n_envs):
            raise ValueError(
                f"hidden_state_shape is {hidden_state_shape}, expected ({buffer_size}, layers, {n_envs}, hidden): a "
                "state for every step of every environment"
            )
        self.hidden_state_shape = hidden_state_shape
        super().__init__(buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs)

    def reset(self) -> None:
        super().reset()
        memories = (np.zeros(self.hidden_state_shape, np.float32) for _ in range(4))
        self.hidden_states_pi, self.cell_states_pi, self.hidden_states_vf, self.cell_states_vf = memories
        self._parts = 0, 0  # of the states that were added: of the policy's memory, of the value's

    def add(self, *args: Any, lstm_states: RNNStates, **kwargs: Any) -> None:  # type: ignore[override]
        """Append one step; ``lstm_states`` are what was remembered before it."""
        step = self.pos
        super().add(*args, **kwargs)
        for memories, state in zip(self._memories(), lstm_states, strict=True):
            for memory, part in zip(memories, state, strict=False):
                memory[step] = part.detach().cpu().numpy()
        self._parts = len(lstm_states.pi), len(lstm_states.vf)

    def get(self, batch_size: int | None = None) -> Iterator[Minibatch]:
        batch_size = batch_size or self.buffer_size * self.n_envs
        length = longest_sequence(self.buffer_size, batch_size)
        self.rollout.sequence_length = length
        self.rollout.states = RNNStates(
            *(
                tuple(torch.from_numpy(memory[::length]) for memory in memories[:count])
                for memories, count in zip(self._memories(), self._parts, strict=True)
            )
        )
        return super().get(batch_size)

    def _memories(self) -> tuple[list[Array], list[Array]]:
        return [self.hidden_states_pi, self.cell_states_pi], [self.hidden_states_vf, self.cell_states_vf]


RecurrentDictRolloutBuffer = RecurrentRolloutBuffer


def create_sequencers(
    episode_starts: Array, env_change: Array, device: torch.device | str
) -> tuple[Array, Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Where the sequences of flat data begin, and two functions that cut data of the same length there.

    A sequence ends with its episode and where the rows of another environment follow.

    >>> begins, pad_rows, pad_and_flatten_rows = create_sequencers(np.array([0, 0, 1]), np.array([1, 0, 0]), "cpu")
    >>> begins
    array([0, 2])
    >>> pad_rows(np.array([5.0, 6.0, 7.0]))
    tensor([[5., 6.],
            [7., 0.]], dtype=torch.float64)
    """
    begins = np.logical_or(episode_starts, env_change).flatten()
    begins[0] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    return first, partial(pad, first, last, device), partial(pad_and_flatten, first, last, device)


def pad(
    seq_start_indices: Array,
    seq_end_indices: Array,
    device: torch.device | str,
    tensor: Array,
    padding_value: float = 0.0,
) -> torch.Tensor:
    """[row, …] → [sequence, longest, …], the sequences given by their first and last rows."""
    sequences = [
        torch.tensor(tensor[first : last + 1], device=device)
        for first, last in zip(seq_start_indices, seq_end_indices, strict=True)
    ]
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=padding_value)


def pad_and_flatten(
    seq_start_indices: Array,
    seq_end_indices: Array,
    device: torch.device | str,
    tensor: Array,
    padding_value: float = 0.0,
) -> torch.Tensor:
    """:func:`pad` for single numbers: [row] → [sequence · longest]."""
    return pad(seq_start_indices, seq_end_indices, device, tensor, padding_value).flatten()
