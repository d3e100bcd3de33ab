"""What a few runs on several tasks say about an algorithm: aggregates with bootstrap intervals.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (arXiv 2108.13264). Scores
are matrices [run, task], usually normalised per task (:func:`min_max_normalize`); every aggregate also takes a stack
of such matrices, [..., run, task], which is how the bootstrap evaluates many resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from proximo.data import Array
from proximo.errors import near_matches

Aggregate: TypeAlias = Callable[..., NDArray[np.float64]]  # score matrices [..., run, task] → [...] or [..., k]
Random: TypeAlias = np.random.Generator | np.random.RandomState

INTERVAL_METHODS = ("percentile", "basic", "bc", "bca")
_OTHER_NAMES = {"debiased": "bc", "bias-corrected": "bc"}
_NUMBERS_AT_ONCE = 1_000_000  # of resampled scores, which bounds the bootstrap's memory


def as_scores(scores: ArrayLike, name: str = "scores") -> NDArray[np.float64]:
    """Scores as floats, [run, task] or a stack of such; refused when empty, of other shape, or not finite."""
    matrix = np.asarray(scores, np.float64)
    if matrix.ndim < 2:
        raise ValueError(
            f"{name} must be a matrix [run, task], got shape {matrix.shape}; scores of one task are {name}[:, None]"
        )
    if matrix.size == 0:
        raise ValueError(f"{name} must hold at least one run and one task, got shape {matrix.shape}")
    wrong = matrix.size - int(np.isfinite(matrix).sum())
    if wrong:
        raise ValueError(
            f"{name} must be finite, but {wrong} of {matrix.size} are NaN or infinite; leave such runs out"
        )
    return matrix


def min_max_normalize(value: ArrayLike, min_scores: ArrayLike, max_scores: ArrayLike) -> NDArray[np.float64]:
    """``(value − min) / (max − min)``, the bounds being numbers or one per task.

    >>> min_max_normalize([[5.0, 10.0]], [0.0, 5.0], [10.0, 25.0])
    array([[0.5 , 0.25]])
    """
    low, high = np.asarray(min_scores, np.float64), np.asarray(max_scores, np.float64)
    if not (high > low).all():
        raise ValueError(f"every maximum must lie above its minimum, got minima {low} and maxima {high}")
    return (np.asarray(value, np.float64) - low) / (high - low)


def mean_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Mean over runs and tasks: one easy task can rule it."""
    return as_scores(scores).mean(axis=(-2, -1))


def median_score(scores: ArrayLike) -> NDArray[np.float64]:
    """Median over tasks of their mean over runs: half of the tasks may fail unseen."""
    return np.median(as_scores(scores).mean(axis=-2), axis=-1)


def interquartile_mean(scores: ArrayLike) -> NDArray[np.float64]:
    """Mean of the middle half of all runs of all tasks.

    >>> float(interquartile_mean([[0.0, 1.0], [2.0, 100.0]]))
    1.5
    """
    matrices = as_scores(scores)
    ranked = np.sort(matrices.reshape(*matrices.shape[:-2], -1), axis=-1)
    cut = ranked.shape[-1] // 4
    return ranked[..., cut : ranked.shape[-1] - cut].mean(axis=-1)


def optimality_gap(scores: ArrayLike, threshold: float = 1.0) -> NDArray[np.float64]:
    """Mean distance by which runs miss ``threshold``; what lies above it counts as reaching it. Lower is better."""
    return threshold - np.minimum(as_scores(scores), threshold).mean(axis=(-2, -1))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike, of_task_means: bool = False) -> NDArray[np.float64]:
    """Fraction of runs that score above each threshold, [..., threshold].

    ``of_task_means`` takes the fraction of tasks whose mean over runs does.
    """
    matrices, limits = as_scores(scores), np.asarray(thresholds, np.float64)
    if limits.ndim != 1 or limits.size == 0:
        raise ValueError(f"thresholds must be a list of numbers, got shape {limits.shape}")
    values = matrices.mean(axis=-2) if of_task_means else matrices.reshape(*matrices.shape[:-2], -1)
    return (values[..., None, :] > limits[:, None]).mean(axis=-1)


def probability_of_improvement(scores_x: ArrayLike, scores_y: ArrayLike) -> NDArray[np.float64]:
    """Mean over tasks of P(X > Y) + ½ P(X = Y) for one run each of X and Y: the Mann-Whitney U, divided by the pairs.

    The numbers of runs may differ.

    >>> float(probability_of_improvement([[1.0], [3.0]], [[0.0], [3.0]]))
    0.625
    """
    x, y = as_scores(scores_x, "scores_x"), as_scores(scores_y, "scores_y")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"both need scores of the same tasks, got {x.shape[-1]} and {y.shape[-1]} tasks")
    ahead = x[..., :, None, :] - y[..., None, :, :]  # [..., run of X, run of Y, task]
    return ((ahead > 0) + 0.5 * (ahead == 0)).mean(axis=(-3, -2, -1))


def bootstrap_interval(
    aggregate: Aggregate,
    *scores: ArrayLike,
    repetitions: int = 50_000,
    coverage: float = 0.95,
    method: str = "percentile",
    resample_tasks: bool = False,
    random: Random | None = None,
) -> NDArray[np.float64]:
    """Lower and upper bound of ``aggregate(*scores)`` under stratified resampling, [2, 1] or [2, k].

    Each repetition draws, for every task on its own and with replacement, as many runs as there are; several score
    matrices are resampled independently. ``resample_tasks`` (one matrix only) draws the tasks as well.
    ``method``: ``percentile``, ``basic``, ``bc`` (bias-corrected) or ``bca`` (and accelerated; equal numbers of runs).
    """
    matrices = [as_scores(each) for each in scores]
    method = _known_method(method)
    if any(each.ndim != 2 for each in matrices):
        raise ValueError(
            f"the bootstrap resamples matrices [run, task], got shapes {[each.shape for each in matrices]}"
        )
    if resample_tasks and len(matrices) > 1:
        raise ValueError("resample_tasks works with one score matrix, got several")
    if repetitions < 1 or not 0.0 < coverage < 1.0:
        raise ValueError(
            f"repetitions must be at least 1 and coverage between 0 and 1, got {repetitions} and {coverage}"
        )
    point = np.atleast_1d(aggregate(*matrices))
    source = np.random.default_rng() if random is None else random
    estimates = np.concatenate(
        [
            aggregate(*stacks).reshape(-1, point.size)
            for stacks in _resamples(matrices, repetitions, _at_once(matrices, point.size), resample_tasks, source)
        ]
    )  # [repetition, k]
    tails = np.array([(1.0 - coverage) / 2, (1.0 + coverage) / 2])
    if method == "basic":
        return 2.0 * point - np.quantile(estimates, tails[::-1], axis=0)
    if method == "percentile":
        return np.quantile(estimates, tails, axis=0)
    acceleration = _acceleration(aggregate, matrices) if method == "bca" else np.zeros(point.size)
    return _corrected(estimates, point, ndtri(tails), acceleration)


def _known_method(method: str) -> str:
    method = _OTHER_NAMES.get(method, method)
    if method not in INTERVAL_METHODS:
        raise ValueError(f"unknown method {method!r} for an interval: {near_matches(method, INTERVAL_METHODS)}")
    return method


def _at_once(matrices: list[NDArray[np.float64]], results: int) -> int:
    """How many repetitions fit the memory that the bootstrap may take."""
    # a comparison of two matrices holds all pairs of their runs, a profile every score at each threshold
    numbers = int(np.prod([len(each) for each in matrices])) * matrices[0].shape[1] * results
    return max(1, _NUMBERS_AT_ONCE // numbers)


def _resamples(
    matrices: list[NDArray[np.float64]], repetitions: int, at_once: int, resample_tasks: bool, random: Random
) -> Iterator[list[Array]]:
    """Stacks [at_once, run, task] of resampled matrices until ``repetitions`` have been drawn."""
    for done in range(0, repetitions, at_once):
        count = min(at_once, repetitions - done)
        yield [_resample(each, count, resample_tasks, random) for each in matrices]


def _resample(matrix: Array, count: int, resample_tasks: bool, random: Random) -> Array:
    runs, tasks = matrix.shape
    drawn_runs = random.choice(runs, (count, runs, tasks))
    if resample_tasks:
        return matrix[drawn_runs, random.choice(tasks, (count, 1, tasks))]
    return matrix[drawn_runs, np.arange(tasks)]


def _corrected(estimates: Array, point: Array, normal_tails: Array, acceleration: Array) -> Array:
    """Efron's bias-corrected (and accelerated) percentiles."""
    below = (estimates < point).mean(axis=0)
    if (below <= 0.0).any() or (below >= 1.0).any():
        raise ValueError(
            "all resampled estimates lie on one side of the estimate, so its bias cannot be corrected; "
            "use method='percentile'"
        )
    bias = ndtri(below)
    shifted = bias + normal_tails[:, None]  # [2, k]
    quantiles = ndtr(bias + shifted / (1.0 - acceleration * shifted))
    return np.stack(
        [np.quantile(column, levels) for column, levels in zip(estimates.T, quantiles.T, strict=True)], axis=1
    )


def _acceleration(aggregate: Aggregate, matrices: list[NDArray[np.float64]]) -> Array:
    """Skewness of the jackknife over runs, [k]."""
    runs = len(matrices[0])
    if any(len(each) != runs for each in matrices):
        raise ValueError(
            f"method 'bca' needs equal numbers of runs, got {[len(each) for each in matrices]}; use 'percentile'"
        )
    if runs < 2:
        raise ValueError("method 'bca' leaves out one run at a time and needs at least two; use 'percentile'")
    left_out = [np.atleast_1d(aggregate(*(np.delete(each, run, axis=0) for each in matrices))) for run in range(runs)]
    deviations = np.mean(left_out, axis=0) - left_out
    spread = 6.0 * (deviations**2).sum(axis=0) ** 1.5
    return (deviations**3).sum(axis=0) / np.where(spread == 0.0, 1.0, spread)
