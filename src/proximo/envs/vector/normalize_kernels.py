"""The arithmetic of :class:`VecNormalize` for the small arrays of a step, in one call instead of thirty.

Batch moments are taken in the observations' own precision and merged in float64, operation by operation as
:class:`RunningMeanStd` does, so that compiled and uncompiled statistics agree to the last bit: what else the process
has imported decides the speed alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from proximo.data import Array


class Kernels(NamedTuple):
    observations: Callable[..., None]
    rewards: Callable[..., tuple[float, float]]


def kernels_if_cheap() -> Kernels | None:
    """The compiled kernels if numba is loaded already: importing it takes longer than a short run saves."""
    return _compiled() if "numba" in sys.modules else None


@cache
def _compiled() -> Kernels:
    from proximo.compilation import kernel

    @kernel(
        "void(float32[:, ::1], float64[::1], float64[::1], float64, float64, float64, boolean, float32[:, ::1])",
        fastmath=False,
    )
    def observations(
        batch: Array,  # [env, feature]
        mean: Array,  # [feature]; updated in place, and so is the next
        variance: Array,
        count: float,
        epsilon: float,
        limit: float,
        learn: bool,
        normalised: Array,  # [env, feature]
    ) -> None:
        size, features = batch.shape
        total = count + size
        for feature in range(features):
            if learn:
                batch_mean = np.float32(0)
                for row in range(size):
                    batch_mean += batch[row, feature]
                batch_mean /= np.float32(size)
                batch_variance = np.float32(0)
                for row in range(size):
                    deviation = batch[row, feature] - batch_mean
                    batch_variance += deviation * deviation
                batch_variance /= np.float32(size)
                delta = np.float64(batch_mean) - mean[feature]
                between = delta * delta * count * size / total
                within = np.float64(batch_variance * np.float32(size))
                squares = variance[feature] * count + within + between
                mean[feature] += delta * size / total
                variance[feature] = squares / total
            centre, deviation_of_all = mean[feature], np.sqrt(variance[feature] + epsilon)
            for row in range(size):
                scaled = (np.float64(batch[row, feature]) - centre) / deviation_of_all
                # written so that NaN passes through, as NumPy's clip lets it
                if scaled > limit:
                    scaled = limit
                elif scaled < -limit:
                    scaled = -limit
                normalised[row, feature] = np.float32(scaled)

    compiled = kernel("UniTuple(float64, 2)(float64[::1], float64, float64, float64)", fastmath=False)(merged_rewards)
    return Kernels(observations, compiled)


def merged_rewards(returns: Array | list[float], mean: float, variance: float, count: float) -> tuple[float, float]:
    """Mean and variance with the running ``returns`` [env] taken in; the same numbers, compiled or not.

    The sums are taken one by one: NumPy's own go in another order from eight numbers on.
    """
    size = len(returns)
    total = count + size
    batch_mean = 0.0
    for row in range(size):
        batch_mean += returns[row]
    batch_mean /= size
    batch_variance = 0.0
    for row in range(size):
        deviation = returns[row] - batch_mean
        batch_variance += deviation * deviation
    batch_variance /= size
    delta = batch_mean - mean
    squares = variance * count + batch_variance * size + delta * delta * count * size / total
    return mean + delta * size / total, squares / total
