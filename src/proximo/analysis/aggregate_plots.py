"""Pictures of aggregates: intervals, probabilities of improvement, profiles and curves over training.

Each function takes what :mod:`proximo.analysis.aggregates` computed, by algorithm, and gives a pyplot figure and its
axes, to be shown or saved. Colours are the library's palette unless ``colors`` maps algorithms to others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from proximo.analysis.plotting import PALETTE
from proximo.data import Array
from proximo.errors import near_matches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Estimate: TypeAlias = Sequence[Any]  # a value and its interval (lower, upper)
Colors: TypeAlias = Mapping[str, Any] | Sequence[Any] | None  # by algorithm, or in their order

_GRID = "#D9D9D9"
_POINT = "#1A1A1A"


def plot_interval_estimates(
    metrics_dict: Mapping[str, Mapping[str, Estimate]],
    metric_names: Sequence[str],
    algorithms: Sequence[str],
    colors: Colors = None,
    max_ticks: int = 4,
    subfigure_width: float = 3.4,
    row_height: float = 0.42,
    interval_height: float = 0.6,
    xlabel: str = "Normalized Score",
) -> tuple[Figure, Any]:
    """One panel per metric, one bar per algorithm from lower to upper bound with a line at the estimate.

    ``metrics_dict[metric][algorithm]`` is an estimate and its interval.
    """
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    _require("metric", metric_names, metrics_dict)
    for metric in metric_names:
        _require("algorithm", algorithms, metrics_dict[metric])
    size = (subfigure_width * len(metric_names) + 1.0, row_height * len(algorithms) + 1.1)
    figure, panels = pyplot.subplots(1, len(metric_names), figsize=size, sharey=True, layout="constrained")
    shades = shades_of(algorithms, colors)
    for axes, metric in zip(np.atleast_1d(panels), metric_names, strict=True):
        draw_intervals(axes, {name: metrics_dict[metric][name] for name in algorithms}, shades, interval_height)
        axes.set_title(metric, fontsize=12, fontweight="bold")
        axes.xaxis.set_major_locator(MaxNLocator(max_ticks))
    figure.supxlabel(xlabel, fontsize=11)
    return figure, panels


def plot_probability_improvement(
    poi_dict: Mapping[str, Estimate],
    pair_separator: str = "_",
    figsize: tuple[float, float] | None = None,
    colors: Colors = None,
    alpha: float = 0.75,
    interval_height: float = 0.6,
    xticks: Iterable[float] | None = None,
    xlabel: str = "P(X > Y)",
    left_ylabel: str = "Algorithm X",
    right_ylabel: str = "Algorithm Y",
) -> tuple[Figure, Axes]:
    """One bar per pair ``"X_Y"``: the probability that a run of X beats one of Y, dashed where neither does."""
    from matplotlib import pyplot

    if not poi_dict:
        raise ValueError("nothing to plot: poi_dict has no pair")
    pairs = [_pair(name, pair_separator) for name in poi_dict]
    shades = shades_of(list(poi_dict), colors)
    figure, axes = pyplot.subplots(figsize=figsize or (6.0, 0.5 * len(pairs) + 1.1), layout="constrained")
    right = draw_improvements(axes, poi_dict, [y for _, y in pairs], shades, interval_height, alpha)
    axes.set_yticks(range(len(pairs)), [x for x, _ in pairs])
    axes.set_ylabel(left_ylabel)
    right.set_ylabel(right_ylabel)
    axes.set_xlabel(xlabel)
    if xticks is not None:
        axes.set_xticks(list(xticks))
    return figure, axes


def plot_performance_profile(
    profile_dict: Mapping[str, Estimate],
    tau_list: ArrayLike,
    use_non_linear_scaling: bool = False,
    figsize: tuple[float, float] = (8.0, 4.8),
    colors: Colors = None,
    alpha: float = 0.18,
    xticks: Sequence[float] | None = None,
    yticks: Iterable[float] | None = None,
    xlabel: str = r"Normalized Score ($\tau$)",
    ylabel: str = r"Fraction of runs with score $> \tau$",
    linestyles: Mapping[str, str] | None = None,
    legend: bool = True,
) -> tuple[Figure, Axes]:
    """A line per algorithm over the thresholds ``tau_list``, with its interval.

    ``use_non_linear_scaling`` stretches the axis where many runs lie.
    """
    from matplotlib import pyplot

    if not profile_dict:
        raise ValueError("nothing to plot: profile_dict has no algorithm")
    thresholds = np.asarray(tau_list, np.float64)
    positions = thresholds
    figure, axes = pyplot.subplots(figsize=figsize, layout="constrained")
    if use_non_linear_scaling:
        positions = 1.0 - np.mean([np.asarray(estimate[0]) for estimate in profile_dict.values()], axis=0)
        marked = _marked_thresholds(positions, thresholds, xticks)
        axes.set_xticks(positions[marked], [f"{threshold:.3g}" for threshold in thresholds[marked]])
    elif xticks is not None:
        axes.set_xticks(list(xticks))
    draw_profiles(axes, profile_dict, positions, shades_of(list(profile_dict), colors), alpha, linestyles or {})
    if yticks is not None:
        axes.set_yticks(list(yticks))
    dress_lines(axes, xlabel, ylabel, legend)
    return figure, axes


def plot_sample_efficiency_curve(
    sampling_dict: Mapping[str, Sequence[ArrayLike]],
    frames: ArrayLike,
    algorithms: Sequence[str],
    colors: Colors = None,
    figsize: tuple[float, float] = (7.0, 4.2),
    xlabel: str = "Number of Frames (in millions)",
    ylabel: str = "Aggregate Human Normalized Score",
    marker: str = "o",
    linewidth: float = 1.8,
    legend: bool = True,
) -> tuple[Figure, Axes]:
    """A line per algorithm over ``frames``; ``sampling_dict[algorithm]`` holds values, lower and upper bounds."""
    from matplotlib import pyplot

    _require("algorithm", algorithms, sampling_dict)
    figure, axes = pyplot.subplots(figsize=figsize, layout="constrained")
    shades = shades_of(algorithms, colors)
    for algorithm in algorithms:
        values, lower, upper = (np.asarray(each, np.float64).reshape(-1) for each in sampling_dict[algorithm])
        shade = shades[algorithm]
        axes.plot(frames, values, color=shade, marker=marker, markersize=4, linewidth=linewidth, label=algorithm)
        axes.fill_between(frames, lower, upper, color=shade, alpha=0.18, linewidth=0)
    dress_lines(axes, xlabel, ylabel, legend)
    return figure, axes


def draw_intervals(
    axes: Axes, estimates: Mapping[str, Estimate], shades: Mapping[str, Any], height: float = 0.6, alpha: float = 0.75
) -> None:
    """One row per name, the first on top."""
    for row, (name, estimate) in enumerate(estimates.items()):
        _draw_bar(axes, row, estimate, shades[name], height, alpha)
    axes.set_yticks(range(len(estimates)), list(estimates))
    _dress_rows(axes, len(estimates))


def draw_improvements(
    axes: Axes,
    estimates: Mapping[str, Estimate],
    rivals: Sequence[str],
    shades: Mapping[str, Any],
    height: float = 0.6,
    alpha: float = 0.75,
) -> Any:
    """One row per pair, dashed where neither is better; the rivals stand at the right axis, which is returned."""
    axes.axvline(0.5, color="#7F7F7F", linestyle="--", linewidth=1.0, zorder=1)
    draw_intervals(axes, estimates, shades, height, alpha)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rivals)), list(rivals))
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    return right


def draw_profiles(
    axes: Axes,
    profiles: Mapping[str, Estimate],
    positions: Array,
    shades: Mapping[str, Any],
    alpha: float = 0.18,
    linestyles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """A line with its interval per name."""
    for name, (values, bounds) in profiles.items():
        style = linestyles.get(name, "solid")
        axes.plot(positions, values, color=shades[name], linestyle=style, linewidth=1.8, label=name)
        axes.fill_between(positions, *bounds, color=shades[name], alpha=alpha, linewidth=0)
    axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])


def _draw_bar(axes: Axes, row: int, estimate: Estimate, shade: Any, height: float, alpha: float = 0.75) -> None:
    value, lower, upper = (float(np.asarray(number).reshape(())) for number in (estimate[0], *np.ravel(estimate[1])))
    axes.barh(row, upper - lower, height=height, left=lower, color=shade, alpha=alpha, linewidth=0, zorder=2)
    axes.vlines(value, row - height / 2, row + height / 2, color=_POINT, linewidth=1.6, zorder=3)


def _dress_rows(axes: Axes, rows: int) -> None:
    axes.set_ylim(rows - 0.4, -0.6)  # the first on top
    axes.use_sticky_edges = False  # or the lowest bar would touch the frame
    axes.margins(x=0.06)
    axes.grid(axis="x", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def dress_lines(axes: Axes, xlabel: str, ylabel: str, legend: bool) -> None:
    """Labels, ticks and grid as all of these plots have them."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    if legend:
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none")


def shades_of(names: Sequence[str], colors: Colors) -> dict[str, Any]:
    """A colour for each name, the same in every plot."""
    if colors is None:
        return dict(zip(names, itertools.cycle(PALETTE), strict=False))
    if isinstance(colors, Mapping):
        _require("colour for", names, colors)
        return dict(colors)
    if len(colors) < len(names):
        raise ValueError(f"got {len(colors)} colors for {len(names)} names: {', '.join(names)}")
    return dict(zip(names, colors, strict=False))


def _require(kind: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    if not names:
        raise ValueError(f"nothing to plot: no {kind} was named")
    for name in names:
        if name not in known:
            raise ValueError(f"there is no {kind} {name!r}: {near_matches(name, known)}")


def _pair(name: str, separator: str) -> tuple[str, str]:
    parts = name.split(separator)
    if len(parts) != 2:
        raise ValueError(
            f"expected two algorithms joined by {separator!r}, got {name!r}; set pair_separator to what joins them"
        )
    return parts[0], parts[1]


def _marked_thresholds(positions: Array, thresholds: Array, wanted: Sequence[float] | None) -> list[int]:
    """Indices of the thresholds to be written under the axis: the ones asked for, else five evenly spread."""
    if wanted is not None:
        return [int(np.abs(thresholds - threshold).argmin()) for threshold in wanted]
    spread = np.linspace(positions.min(), positions.max(), 5)
    return sorted({int(np.abs(positions - position).argmin()) for position in spread})
