"""A rollout cut into minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from proximo.data import Array, Minibatch, Observation, Rollout, TensorObservation, map_observation


def _flat(array: Array, device: torch.device) -> torch.Tensor:
    """[time, env, …] → [time · env, …] on the device, without a copy on the CPU."""
    return torch.as_tensor(array.reshape(-1, *array.shape[2:]), device=device)


def flat_observations(observations: Observation, device: torch.device) -> TensorObservation:
    """[time, env, …] observations as tensors [time · env, …] on the device."""
    return map_observation(partial(_flat, device=device), observations)


def on_device(rollout: Rollout, device: torch.device) -> Minibatch:
    """The whole rollout as one batch on a device: the only transfer of an update."""
    masks = None if rollout.action_masks is None else _flat(rollout.action_masks, device)
    stream = rollout.own_stream
    return Minibatch(
        observations=flat_observations(rollout.observations, device),
        actions=_flat(rollout.actions, device),
        old_values=_flat(rollout.values if stream is None else np.stack([rollout.values, stream.values], 2), device),
        old_log_prob=_flat(rollout.log_probs, device),
        advantages=_flat(rollout.advantages, device),
        returns=_flat(rollout.returns if stream is None else np.stack([rollout.returns, stream.returns], 2), device),
        action_masks=masks,
    )


def _rows(tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        # index_select would turn the images around to channels-first memory
        return tensor.permute(0, 2, 3, 1).index_select(0, indices).permute(0, 3, 1, 2)
    return tensor.index_select(0, indices)


def take_observations(observations: TensorObservation, indices: torch.Tensor) -> TensorObservation:
    """Rows of observations, in the memory layout that they have."""
    return map_observation(partial(_rows, indices=indices), observations)


def take(batch: Minibatch, indices: torch.Tensor) -> Minibatch:
    """Rows of a batch."""

    def pick(value: TensorObservation | None) -> TensorObservation | None:
        return None if value is None else take_observations(value, indices)

    rows: list[Any] = [pick(value) for value in batch._replace(lstm_states=None)]  # type: ignore[arg-type]
    return Minibatch(*rows)._replace(lstm_states=batch.lstm_states)  # these belong to sequences, not to rows


def minibatches(whole: Minibatch, order: torch.Tensor, batch_size: int) -> Iterator[Minibatch]:
    """Consecutive pieces of ``order`` (row indices into the whole rollout); the last may be shorter."""
    for indices in order.split(batch_size):
        yield take(whole, indices)


def longest_sequence(steps: int, batch_size: int) -> int:
    """Steps per training sequence: as few sequences as fit a minibatch each, as equal in length as can be.

    >>> longest_sequence(96, 64), longest_sequence(127, 64)
    (48, 64)
    """
    sequences = -(-steps // min(steps, batch_size))
    return -(-steps // sequences)


def sequence_minibatches(
    whole: Minibatch, rollout: Rollout, order: torch.Tensor, batch_size: int
) -> Iterator[Minibatch]:
    """Minibatches of whole sequences for a policy with memory; ``order`` lists sequences.

    Sequence ``chunk * environments + env`` holds the steps ``chunk * length …`` of one environment. Rows of a minibatch
    are sequence-major, [sequence · time, …]. The last sequence of an environment may be shorter; it is filled up with
    rows that do not train.
    """
    device, length, environments = whole.actions.device, rollout.sequence_length, rollout.environments
    starts = _flat(rollout.episode_starts, device).float()
    valid = None if rollout.valid is None else _flat(rollout.valid, device)
    if valid is None and rollout.steps % length:
        valid = torch.ones_like(starts, dtype=torch.bool)
    whole = whole._replace(episode_starts=starts, valid=valid)
    if rollout.states is None:
        raise ValueError("the rollout has sequences, but not the memory that they begin with (rollout.states)")
    states = rollout.states.map(lambda part: part.to(device))
    within = torch.arange(length, device=device)
    for sequences in order.split(max(1, batch_size // length)):
        chunks, columns = sequences // environments, sequences % environments
        steps = (chunks * length).unsqueeze(1) + within  # [sequence, time]
        rows = steps.clamp(max=rollout.steps - 1) * environments + columns.unsqueeze(1)
        beginning = states.map(partial(_of_sequences, chunks=chunks, columns=columns))
        batch = take(whole, rows.flatten())._replace(lstm_states=beginning)
        if batch.valid is not None:
            batch = batch._replace(valid=batch.valid & (steps < rollout.steps).flatten())
        yield batch


def _of_sequences(part: torch.Tensor, chunks: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """[chunk, layer, env, hidden] → [layer, sequence, hidden]"""
    return part[chunks, :, columns].transpose(0, 1).contiguous()


def epoch_minibatches(whole: Minibatch, rollout: Rollout, order: torch.Tensor, batch_size: int) -> Iterator[Minibatch]:
    """One pass over a rollout in the given order of its rows, or of its sequences where it has some."""
    if rollout.sequence_length:
        return sequence_minibatches(whole, rollout, order, batch_size)
    return minibatches(whole, order, batch_size)


def keep_valid(batch: Minibatch) -> Minibatch:
    """The rows that train, of a batch that holds whole sequences."""
    if batch.valid is None or bool(batch.valid.all()):
        return batch
    return take(batch, batch.valid.nonzero().squeeze(1))
