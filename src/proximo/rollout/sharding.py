"""Minibatches of a rollout whose rows lie in several processes: all draw the same, each takes the rows that it holds.

A minibatch comes with a weight, the share of its rows that is here. A mean over these rows times the weight, summed
over all processes, is the mean over the minibatch; so are gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from proximo.data import Array, Minibatch, Rollout, Share
from proximo.rollout.minibatches import epoch_minibatches, on_device
from proximo.rollout.storage import RolloutBuffer

Reduce: TypeAlias = Callable[[torch.Tensor], None]  # replaces a tensor by the sum over all processes
Weighted: TypeAlias = tuple[Minibatch, float | None]  # None: all rows are here, and no other process is asked


@dataclass(frozen=True)
class Moments:
    """Of numbers that lie in several processes."""

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]  # with divisor n

    @property
    def deviation(self) -> NDArray[np.float64]:
        """With divisor n − 1, as minibatches are normalised by."""
        return np.sqrt(self.variance * self.count / np.maximum(self.count - 1, 1))


def moments(groups: list[Array], reduce: Reduce | None) -> Moments:
    """Of each of several groups of numbers, of which this process has some; in float64, and in one exchange.

    >>> moments([np.array([1.0, 3.0])], None)
    Moments(count=array([2.]), mean=array([2.]), variance=array([1.]))
    """
    exact = [np.asarray(group, np.float64) for group in groups]
    sums = torch.tensor([[len(group), group.sum(), np.square(group).sum()] for group in exact], dtype=torch.float64)
    if reduce is not None:
        reduce(sums)
    count, total, squares = sums.numpy().T
    mean = total / np.maximum(count, 1)
    return Moments(count, mean, np.maximum(squares / np.maximum(count, 1) - np.square(mean), 0.0))


def own_indices(indices: NDArray[np.int64], share: Share) -> NDArray[np.int64]:
    """Of rows numbered ``step * all environments + environment`` those that are here, numbered as they lie here.

    >>> own_indices(np.array([0, 3, 6, 9]), Share(first=1, count=2, total=4))
    array([3, 4])
    """
    steps, environments = np.divmod(indices, share.total)
    mine = (environments >= share.first) & (environments < share.first + share.count)
    return steps[mine] * share.count + environments[mine] - share.first


def weighted_epochs(
    buffer: RolloutBuffer,
    orders: NDArray[np.int64],
    batch_size: int,
    device: torch.device,
    normalize: bool,
    reduce: Reduce | None,
) -> Iterator[Iterator[Weighted]]:
    """The minibatches of each epoch in the given orders [epoch, sample], which count the rows of all processes.

    Where the rows lie in several processes, advantages are normalised here if at all, by the moments of whole
    minibatches. Where this process has none of a minibatch, any row stands for them, with the weight 0.
    """
    if buffer.rollout.share is None:
        for epoch in buffer.epochs(orders, batch_size, device):
            yield ((batch, None) for batch in epoch)
        return
    rollout, share = buffer.rollout, buffer.rollout.share
    size = max(1, batch_size // rollout.sequence_length) if rollout.sequence_length else batch_size
    whole = on_device(rollout, device)
    epochs = [
        [own_indices(order[start : start + size], share) for start in range(0, len(order), size)] for order in orders
    ]
    advantages = rollout.advantages.reshape(-1)
    own_rows = [training_rows(rollout, piece) for pieces in epochs for piece in pieces]
    of_minibatches = moments([advantages[rows] for rows in own_rows], reduce)
    weights = np.array([len(rows) for rows in own_rows]) / np.maximum(of_minibatches.count, 1)
    deviations = of_minibatches.deviation + 1e-8
    number = iter(range(len(own_rows)))

    def minibatches(pieces: list[NDArray[np.int64]]) -> Iterator[Weighted]:
        for piece in pieces:
            index = next(number)
            weight = float(weights[index])
            rows = torch.as_tensor(piece if weight > 0.0 else np.zeros(1, np.int64), device=device)
            batch = next(epoch_minibatches(whole, rollout, rows, len(rows) * max(1, rollout.sequence_length)))
            if normalize and of_minibatches.count[index] > 1:
                scaled = (batch.advantages - float(of_minibatches.mean[index])) / float(deviations[index])
                batch = batch._replace(advantages=scaled)
            yield batch, weight

    for pieces in epochs:
        yield minibatches(pieces)


def training_rows(rollout: Rollout, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows that train of these: rows themselves, or sequences of a policy with memory."""
    if not rollout.sequence_length:
        return indices
    chunks, columns = np.divmod(indices, rollout.environments)
    steps = chunks[:, None] * rollout.sequence_length + np.arange(rollout.sequence_length)
    rows = (steps * rollout.environments + columns[:, None])[steps < rollout.steps]
    return rows if rollout.valid is None else rows[rollout.valid.reshape(-1)[rows]]
