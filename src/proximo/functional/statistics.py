"""Running statistics, explained variance, confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proximo.data import Array, Observation, observation_parts
from proximo.errors import NonFiniteError


class RunningMeanStd:
    """Mean and variance of a stream of batches (Chan et al., parallel algorithm), in float64.

    >>> statistics = RunningMeanStd(epsilon=1e-8, shape=())
    >>> statistics.update(np.array([1.0, 3.0]))
    >>> round(float(statistics.mean), 3), round(float(statistics.var), 3)
    (2.0, 1.0)
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        """Arguments:
        epsilon: Weight of the mean 0 and variance 1 that it starts with, in samples.
        shape: Shape of one sample.
        """
        self.mean: NDArray[np.float64] = np.zeros(shape, np.float64)
        self.var: NDArray[np.float64] = np.ones(shape, np.float64)
        self.count: float = epsilon

    def copy(self) -> RunningMeanStd:
        """A copy that goes on by itself."""
        duplicate = RunningMeanStd(shape=self.mean.shape)
        duplicate.mean, duplicate.var, duplicate.count = self.mean.copy(), self.var.copy(), float(self.count)
        return duplicate

    def update(self, arr: Array) -> None:
        """Take in a batch, its first axis counting samples."""
        self.update_from_moments(np.mean(arr, axis=0), np.var(arr, axis=0), arr.shape[0])

    def update_from_moments(self, batch_mean: Array, batch_var: Array, batch_count: float) -> None:
        """Take in a batch of which mean, variance and number are known."""
        delta = batch_mean - self.mean
        total = self.count + batch_count
        squares = self.var * self.count + batch_var * batch_count + np.square(delta) * self.count * batch_count / total
        self.mean = self.mean + delta * batch_count / total
        self.var = squares / total
        self.count = total


class RowMoments:
    """Number, mean and sum of squared deviations of what each row of a batch showed over time (Welford), in float64.

    Each row is summed up by itself, so that nothing depends on which rows are together in a batch.

    >>> moments = RowMoments(2, ())
    >>> moments.add(np.array([1.0, 5.0]))
    >>> moments.add(np.array([3.0, 7.0]), np.array([True, False]))
    >>> moments.count.tolist(), moments.mean.tolist(), moments.squares.tolist()
    ([2.0, 1.0], [2.0, 5.0], [2.0, 0.0])
    """

    def __init__(self, rows: int, shape: tuple[int, ...]) -> None:
        """Arguments:
        rows: Rows of a batch.
        shape: Shape of one row.
        """
        self.count: NDArray[np.float64] = np.zeros(rows)
        self.mean: NDArray[np.float64] = np.zeros((rows, *shape))
        self.squares: NDArray[np.float64] = np.zeros((rows, *shape))

    def add(self, batch: Array, rows: Array | None = None) -> None:
        """Take in a batch, of which only the ``rows`` that are true count, if they are given."""
        column = (-1, *(1,) * (batch.ndim - 1))
        if rows is None:
            self.count += 1.0
        else:
            self.count += rows
            batch = np.where(rows.reshape(column), batch, self.mean)  # one that does not count deviates by nothing
        deviations = batch - self.mean
        self.mean += deviations / np.maximum(self.count, 1.0).reshape(column)
        deviations *= batch - self.mean
        self.squares += deviations

    def merge_into(self, statistics: RunningMeanStd) -> None:
        """Let ``statistics`` take in all rows, one after the other."""
        for count, mean, squares in zip(self.count.tolist(), self.mean, self.squares, strict=True):
            if count:
                statistics.update_from_moments(mean, squares / count, count)

    def arrays(self) -> dict[str, Array]:
        """Count, mean and sum of squares, [row, …]: the memory itself."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}


def explained_variance(y_pred: Array, y_true: Array) -> float:
    """1 − Var(target − prediction) / Var(target): 1 is perfect, 0 no better than a constant, NaN for constant targets.

    >>> explained_variance(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    1.0
    """
    variance = np.var(y_true)
    return math.nan if variance == 0 else float(1.0 - np.var(y_true - y_pred) / variance)


def first_non_finite(values: Observation) -> tuple[int, ...] | None:
    """Index of the first NaN or infinity in a float array, or in a dictionary of arrays; None when all are numbers.

    >>> first_non_finite(np.array([[0.0, 1.0], [np.nan, 2.0]]))
    (1, 0)
    """
    for part in observation_parts(values):
        if np.issubdtype(part.dtype, np.floating) and not np.isfinite(part).all():
            return tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(part)))
    return None


def non_finite_error(name: str, step: int, environment: int) -> NonFiniteError:
    """The error that names what holds NaN or infinity."""
    return NonFiniteError(
        f"NaN or infinity in the {name} of environment {environment} at step {step} of the rollout; the policy was not "
        "updated with it. Look at that environment (VecCheckNan stops at the very step and names the culprit)"
    )


def check_finite_row(name: str, values: Observation, step: int) -> None:
    """Raise for a NaN or infinity in one step's [env, …] values."""
    if (index := first_non_finite(values)) is not None:
        raise non_finite_error(name, step, index[0])


def check_finite_rollout(name: str, values: Observation) -> None:
    """Raise for a NaN or infinity in [time, env, …] values."""
    if (index := first_non_finite(values)) is not None:
        raise non_finite_error(name, index[0], index[1])


class Interval(NamedTuple):
    """A mean with its confidence interval.

    Arguments:
        mean: The mean.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


def mean_interval(samples: Sequence[float] | Array, confidence: float = 0.95) -> Interval:
    """Student's t interval of the mean; one sample has no interval and gives NaN bounds.

    >>> str(mean_interval([1.0, 2.0, 3.0]))
    '2.0 [-0.5, 4.5]'
    """
    mean, low, high = mean_intervals(np.asarray(samples, np.float64), confidence)
    return Interval(float(mean), float(low), float(high))


def mean_intervals(samples: Array, confidence: float = 0.95) -> tuple[Array, Array, Array]:
    """Mean, lower and upper bound over the first axis, each of the shape that is left: [sample, …] → […]."""
    from scipy import special  # only reports need it

    mean, count = samples.mean(axis=0), len(samples)
    if count < 2:
        return mean, np.full_like(mean, math.nan), np.full_like(mean, math.nan)
    quantile = special.stdtrit(count - 1, 0.5 + confidence / 2)
    half = quantile * samples.std(axis=0, ddof=1) / math.sqrt(count)
    return mean, mean - half, mean + half
