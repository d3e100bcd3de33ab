"""Two algorithms' scores against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proximo.analysis import aggregates


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
