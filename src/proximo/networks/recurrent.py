"""Policies with memory: an LSTM or GRU between the features and the latents of policy and value.

Training runs whole sequences. A sequence is cut where an episode starts inside it; the pieces, padded to one length, go
through the recurrent layer in one call, each from its own initial state.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]  # each [layer, env, hidden]: (hidden, cell) of an LSTM, (hidden,) of a GRU


def parts_of_state(layer: nn.Module) -> int:
    """2 for an LSTM (hidden and cell), 1 for a GRU."""
    return 2 if isinstance(layer, nn.LSTM) else 1


def zero_state(layer: nn.LSTM | nn.GRU, environments: int) -> State:
    device = next(layer.parameters()).device
    shape = (layer.num_layers, environments, layer.hidden_size)
    return tuple(torch.zeros(shape, device=device) for _ in range(parts_of_state(layer)))


def forget(state: State, episode_starts: Tensor) -> State:
    """Zeros where an episode starts; ``episode_starts`` is [env]."""
    keep = (1.0 - episode_starts.float()).view(1, -1, 1)
    return tuple(part * keep for part in state)


def _run(layer: nn.LSTM | nn.GRU, inputs: Tensor, state: State) -> tuple[Tensor, State]:
    if isinstance(layer, nn.LSTM):
        outputs, (hidden, cell) = layer(inputs, (state[0], state[1]))
        return outputs, (hidden, cell)
    outputs, hidden = layer(inputs, state[0])
    return outputs, (hidden,)


def step_memory(
    layer: nn.LSTM | nn.GRU, features: Tensor, state: State, episode_starts: Tensor
) -> tuple[Tensor, State]:
    """One step: features [env, feature] → outputs [env, hidden] and the next state."""
    outputs, state = _run(layer, features.unsqueeze(0), forget(state, episode_starts))
    return outputs.squeeze(0), state


class Pieces(NamedTuple):
    """Where each (time, sequence) element lies among the pieces that episode starts cut."""

    piece: Tensor  # [time, sequence]: index of the piece
    position: Tensor  # [time, sequence]: place within it
    total: int
    longest: int
    first: Tensor  # [sequence]: the piece that each sequence begins with


def cut_at_starts(episode_starts: Tensor) -> Pieces:
    """Cut [time, sequence] at every true entry; the first row begins a piece in any case.

    >>> pieces = cut_at_starts(torch.tensor([[0], [0], [1], [0]]))
    >>> pieces.piece.flatten().tolist(), pieces.position.flatten().tolist()
    ([0, 0, 1, 1], [0, 1, 0, 1])
    """
    begins = episode_starts.bool().clone()
    begins[0] = True
    per_sequence = begins.long().cumsum(dim=0)  # 1-based number of the piece within its sequence
    counts = per_sequence[-1]
    first = counts.cumsum(dim=0) - counts
    time = torch.arange(len(begins), device=begins.device).unsqueeze(1)
    start = torch.where(begins, time, 0).cummax(dim=0).values
    position = time - start
    return Pieces(per_sequence - 1 + first, position, int(counts.sum()), int(position.max()) + 1, first)


def run_sequences(layer: nn.LSTM | nn.GRU, features: Tensor, state: State, episode_starts: Tensor) -> Tensor:
    """Outputs [time, sequence, hidden] for features [time, sequence, feature] that start from ``state``."""
    pieces = cut_at_starts(episode_starts)
    padded = features.new_zeros(pieces.longest, pieces.total, features.shape[-1])
    padded = padded.index_put((pieces.position, pieces.piece), features)
    initial = []
    for part in forget(state, episode_starts[0]):
        whole = part.new_zeros(part.shape[0], pieces.total, part.shape[2])
        initial.append(whole.index_copy(1, pieces.first, part))
    outputs, _ = _run(layer, padded, tuple(initial))
    return outputs[pieces.position, pieces.piece]
