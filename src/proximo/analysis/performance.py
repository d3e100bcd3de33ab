"""Aggregates of one algorithm's scores, and two algorithms' scores against each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proximo.analysis import aggregates

Numbers: TypeAlias = NDArray[np.float64]


class Performance:
    """Aggregates of ``scores`` [run, task]; with ``get_ci`` each comes with its bootstrap interval, [2, 1].

    ``method``: percentile, basic, bc or bca; ``task_bootstrap`` resamples tasks as well as runs; ``random_state``
    makes the intervals repeatable.
    """

    def __init__(
        self,
        scores: ArrayLike,
        get_ci: bool = False,
        method: str = "percentile",
        task_bootstrap: bool = False,
        reps: int = 50_000,
        confidence_interval_size: float = 0.95,
        random_state: aggregates.Random | None = None,
    ) -> None:
        """Arguments:
        scores: Scores [run, task].
        get_ci: Whether each aggregate comes with its bootstrap interval.
        method: Kind of interval: percentile, basic, bc or bca.
        task_bootstrap: Whether tasks are resampled as well as runs.
        reps: Number of resamples.
        confidence_interval_size: Share of the resamples that an interval holds.
        random_state: Generator of the resamples; one with a seed makes intervals repeatable.
        """
        self.scores = aggregates.as_scores(scores)
        self.get_ci = get_ci
        self.method = method
        self.task_bootstrap = task_bootstrap
        self.reps = reps
        self.confidence_interval_size = confidence_interval_size
        self.random_state = random_state

    def aggregate_mean(self) -> Numbers | tuple[Numbers, Numbers]:
        """The mean over all runs and tasks."""
        return self._estimate(aggregates.mean_score)

    def aggregate_median(self) -> Numbers | tuple[Numbers, Numbers]:
        """Median over tasks of their means over runs."""
        return self._estimate(aggregates.median_score)

    def aggregate_iqm(self) -> Numbers | tuple[Numbers, Numbers]:
        """Mean of the middle half of all scores."""
        return self._estimate(aggregates.interquartile_mean)

    def aggregate_og(self, gamma: float = 1.0) -> Numbers | tuple[Numbers, Numbers]:
        """Optimality gap: by how much scores miss ``gamma`` on average."""
        return self._estimate(partial(aggregates.optimality_gap, threshold=gamma))

    def create_performance_profile(
        self, tau_list: ArrayLike, use_score_distribution: bool = True
    ) -> tuple[Numbers, Numbers]:
        """Fractions of runs (else of tasks' means) above each threshold, [threshold], and their intervals, [2, ...]."""
        profile = partial(aggregates.performance_profile, thresholds=tau_list, of_task_means=not use_score_distribution)
        return profile(self.scores), self._interval(profile, self.scores)

    def get_interval_estimates(self, scores: ArrayLike, metric: Callable[[Numbers], Any]) -> Numbers:
        """The interval of your own ``metric``, a function of one matrix [run, task]."""

        def of_stack(stack: Numbers) -> Numbers:
            if stack.ndim == 2:
                return np.asarray(metric(stack), np.float64)
            return np.array([metric(matrix) for matrix in stack], np.float64)

        return self._interval(of_stack, scores)

    def _estimate(self, aggregate: aggregates.Aggregate) -> Numbers | tuple[Numbers, Numbers]:
        value = aggregate(self.scores)
        return (value, self._interval(aggregate, self.scores)) if self.get_ci else value

    def _interval(self, aggregate: aggregates.Aggregate, scores: ArrayLike) -> Numbers:
        return aggregates.bootstrap_interval(
            aggregate,
            scores,
            repetitions=self.reps,
            coverage=self.confidence_interval_size,
            method=self.method,
            resample_tasks=self.task_bootstrap,
            random=self.random_state,
        )


class Comparison:
    """Scores [run, task] of two algorithms on the same tasks; the other arguments are those of ``Performance``."""

    def __init__(
        self,
        scores_x: ArrayLike,
        scores_y: ArrayLike,
        get_ci: bool = False,
        method: str = "percentile",
        reps: int = 2000,
        confidence_interval_size: float = 0.95,
        random_state: aggregates.Random | None = None,
    ) -> None:
        """Arguments:
        scores_x: Scores [run, task] of the first algorithm.
        scores_y: Scores [run, task] of the second, on the same tasks.
        get_ci: Whether the probability comes with its bootstrap interval.
        method: Kind of interval: percentile, basic, bc or bca.
        reps: Number of resamples.
        confidence_interval_size: Share of the resamples that an interval holds.
        random_state: Generator of the resamples; one with a seed makes intervals repeatable.
        """
        self.scores_x = aggregates.as_scores(scores_x, "scores_x")
        self.scores_y = aggregates.as_scores(scores_y, "scores_y")
        if self.scores_x.shape[1] != self.scores_y.shape[1]:
            raise ValueError(
                "both algorithms need scores of the same tasks, got matrices [run, task] of shapes "
                f"{self.scores_x.shape} and {self.scores_y.shape}"
            )
        self.get_ci = get_ci
        self.method = method
        self.reps = reps
        self.confidence_interval_size = confidence_interval_size
        self.random_state = random_state

    def compute_poi(self) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Probability that a run of X beats one of Y, over tasks; with ``get_ci`` and its interval, [2, 1]."""
        value = aggregates.probability_of_improvement(self.scores_x, self.scores_y)
        if not self.get_ci:
            return value
        return value, self._interval(aggregates.probability_of_improvement, self.scores_x, self.scores_y)

    def get_interval_estimates(
        self, scores_x: ArrayLike, scores_y: ArrayLike, metric: Callable[..., Any]
    ) -> NDArray[np.float64]:
        """The interval of your own ``metric``, a function of two matrices [run, task]."""

        def of_stacks(stack_x: NDArray[np.float64], stack_y: NDArray[np.float64]) -> NDArray[np.float64]:
            if stack_x.ndim == 2:
                return np.asarray(metric(stack_x, stack_y), np.float64)
            return np.array([metric(*pair) for pair in zip(stack_x, stack_y, strict=True)], np.float64)

        return self._interval(of_stacks, scores_x, scores_y)

    def _interval(self, compare: Callable[..., Any], *scores: ArrayLike) -> NDArray[np.float64]:
        return aggregates.bootstrap_interval(
            compare,
            *scores,
            repetitions=self.reps,
            coverage=self.confidence_interval_size,
            method=self.method,
            random=self.random_state,
        )
