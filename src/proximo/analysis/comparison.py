"""Which of several trainings is better, by a few runs on one or more tasks, and how sure that is.

The recommendations of Agarwal et al. 2021 (arXiv 2108.13264): interquartile means, probabilities of improvement and
performance profiles beside the mean, each with an interval over resampled runs of every task.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proximo.analysis.aggregate_plots import draw_improvements, draw_intervals, draw_profiles, dress_lines, shades_of
from proximo.analysis.aggregates import (
    Aggregate,
    as_scores,
    bootstrap_interval,
    interquartile_mean,
    mean_score,
    performance_profile,
    probability_of_improvement,
)
from proximo.analysis.plotting import literal
from proximo.data import Array

AGGREGATES: dict[str, Aggregate] = {"IQM": interquartile_mean, "mean": mean_score}
THRESHOLDS = 101
PROFILE_REPETITIONS = 2_000  # a profile is many estimates at once


class Estimate(NamedTuple):
    """A value with its 95 % interval.

    Arguments:
        value: The estimate itself.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """What the scores of groups say about them.

    Arguments:
        thresholds: Scores at which the profiles are given.
    """

    scores: dict[str, NDArray[np.float64]]  # by group, [run, task]
    aggregates: dict[str, dict[str, Estimate]]  # by aggregate and group
    improvements: dict[tuple[str, str], Estimate]  # P(X > Y) of each pair
    thresholds: NDArray[np.float64]
    profiles: dict[str, tuple[Array, Array]]  # by group: fractions [threshold], and their bounds [2, threshold]

    def can_tell_apart(self, x: str, y: str) -> bool:
        """Whether there are runs enough to be sure at 5 % of any difference at all.

        If X and Y were alike, every way to deal the runs of each task out to them would be as likely; the clearest
        result, all of one above all of the other, is one of 2 among them. A bootstrap of two runs cannot know that: it
        finds an interval of no width where both happen to lie on one side.
        """
        (runs_x, tasks), (runs_y, _) = self.scores[x].shape, self.scores[y].shape
        return 2.0 / math.comb(runs_x + runs_y, runs_x) ** tasks <= 0.05

    def profile_at(self, group: str, index: int) -> Estimate:
        """The share of runs above a score, for each group."""
        values, bounds = self.profiles[group]
        return Estimate(float(values[index]), float(bounds[0, index]), float(bounds[1, index]))


def compare(scores: Mapping[str, Array], repetitions: int = 50_000, seed: int = 0) -> Comparison:
    """Compare groups by their scores, a matrix [run, task] each with the tasks in the same order.

    Every interval is drawn from a generator of its own with ``seed``, so none depends on which others are asked for.
    """
    matrices = {group: as_scores(each, f"the scores of {group}") for group, each in scores.items()}
    everything = np.concatenate([matrix.ravel() for matrix in matrices.values()])
    thresholds = np.linspace(everything.min(), everything.max(), THRESHOLDS)

    def interval(aggregate: Aggregate, *groups: str, most: int = repetitions) -> Array:
        chosen = [matrices[group] for group in groups]
        random = np.random.RandomState(seed)
        return bootstrap_interval(aggregate, *chosen, repetitions=min(repetitions, most), random=random)

    def estimate(aggregate: Aggregate, *groups: str) -> Estimate:
        low, high = interval(aggregate, *groups)[:, 0]
        return Estimate(float(aggregate(*(matrices[group] for group in groups))), float(low), float(high))

    def profile(each: Any) -> NDArray[np.float64]:
        return performance_profile(each, thresholds)

    return Comparison(
        scores=matrices,
        aggregates={
            name: {group: estimate(aggregate, group) for group in matrices} for name, aggregate in AGGREGATES.items()
        },
        improvements={pair: estimate(probability_of_improvement, *pair) for pair in combinations(matrices, 2)},
        thresholds=thresholds,
        profiles={
            group: (profile(matrix), interval(profile, group, most=PROFILE_REPETITIONS))
            for group, matrix in matrices.items()
        },
    )


def plot_comparison(comparison: Comparison, path: str | os.PathLike[str], score: str) -> Path:
    """Aggregates, improvements and profiles as one picture; ``score`` says what the numbers are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = [literal(group) for group in comparison.scores]
    pairs = {(literal(x), literal(y)): each for (x, y), each in comparison.improvements.items()}
    rows = 0.4 * max(len(groups), len(pairs)) + 1.0
    figure = Figure(figsize=(11.0, rows + 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    subfigures: Any = figure.subfigures(2, 1, height_ratios=[rows, 4.2])
    above, below = subfigures
    panels = above.subplots(1, len(AGGREGATES) + bool(pairs))
    shades = shades_of(groups, None)
    for axes, (name, estimates) in zip(np.atleast_1d(panels), comparison.aggregates.items(), strict=False):
        draw_intervals(axes, _with_bounds(dict(zip(groups, estimates.values(), strict=True))), shades)
        axes.set_title(name, loc="left", fontsize=12, fontweight="bold")
        if name != next(iter(AGGREGATES)):
            axes.set_yticklabels([])
    if pairs:
        shown = {f"{x}\n{y}": estimate for (x, y), estimate in pairs.items()}
        colours = {name: shades[x] for name, (x, _) in zip(shown, pairs, strict=True)}
        draw_improvements(panels[-1], _with_bounds(shown), [y for _, y in pairs], colours)
        panels[-1].set_yticks(range(len(pairs)), [x for x, _ in pairs])
        panels[-1].set_title("P(left > right)", loc="left", fontsize=12, fontweight="bold")
    axes = below.subplots()
    profiles = dict(zip(groups, comparison.profiles.values(), strict=True))
    draw_profiles(axes, profiles, comparison.thresholds, shades)
    dress_lines(axes, literal(score), "fraction of runs above", legend=True)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=200)
    return target


def _with_bounds(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: (each.value, (each.low, each.high)) for name, each in estimates.items()}
