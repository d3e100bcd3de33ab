"""Pictures of learning: curves with intervals over seeds, from run folders."""

from __future__ import annotations

import csv
import itertools
import math
import os
import textwrap
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proximo.data import Array
from proximo.errors import ModelFileError, near_matches
from proximo.files.budgets import Budgets
from proximo.files.plain_text import bounded_lines, parse_json, printable
from proximo.functional.statistics import mean_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette: told apart with every common kind of colour vision, black left for text
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#5F5F5F")

LEGEND_WIDTH = 72  # characters
LEGEND_LINES_WITHIN = 6
MOST_COLUMNS = 4096
MOST_NUMBERS = 2**23  # of all curves of a file: 16 bytes each

LABELS = {
    "time/total_timesteps": "environment steps",
    "time/time_elapsed": "seconds",
    "time/iterations": "iterations",
    "rollout/ep_rew_mean": "mean episode return",
    "rollout/ep_len_mean": "mean episode length",
    "rollout/success_rate": "success rate",
    "eval/mean_reward": "evaluation return",
}


def read_curve(run: str | os.PathLike[str], x: str, y: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Columns ``x`` and ``y`` of a run's ``progress.csv`` (or ``progress.json``), where both are finite numbers.

    ``run`` is the run folder or the file.
    """
    path = progress_file(Path(run))
    columns: dict[str, None] = {}
    curve = _Curve()
    for row in _rows(path):
        columns.update(dict.fromkeys(row))
        curve.add(_number(row.get(x)), _number(row.get(y)))
    for key in (x, y):
        if key not in columns:
            raise ValueError(f"{path} has no column {key!r}; {near_matches(key, list(columns)[:100])}")
    if not curve.x:
        raise ValueError(f"{path} has no row in which both {x!r} and {y!r} are numbers")
    return curve.points()


def read_curves(
    run: str | os.PathLike[str], x: str = "time/total_timesteps"
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Every column of a run's progress file over column ``x``; columns without a finite number are left out."""
    path = progress_file(Path(run))
    curves: dict[str, _Curve] = {}
    left = MOST_NUMBERS
    for row in _rows(path):
        place, left = _number(row.get(x)), left - len(row)
        if left < 0:
            raise ValueError(f"{path} holds more than {MOST_NUMBERS} numbers; give a part of it")
        for name, value in row.items():
            curves.setdefault(name, _Curve()).add(place, _number(value))
    return {name: curves.pop(name).points() for name in list(curves) if curves[name].x}


class _Curve:
    """Points as they are read, 16 bytes each."""

    def __init__(self) -> None:
        self.x, self.y = array("d"), array("d")

    def add(self, x: float, y: float) -> None:
        if math.isfinite(x) and math.isfinite(y):
            self.x.append(x)
            self.y.append(y)

    def points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """By rising x; of those with one x the last counts."""
        x, y = np.frombuffer(self.x, np.float64), np.frombuffer(self.y, np.float64)
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
        is_last = np.append(x[1:] != x[:-1], True)
        return x[is_last], y[is_last]


def plot_learning_curves(
    runs: Mapping[str, Sequence[str | os.PathLike[str]]],
    path: str | os.PathLike[str],
    x: str = "time/total_timesteps",
    y: str = "rollout/ep_rew_mean",
    title: str | None = None,
) -> Path:
    """Draw one line per label, the mean over its runs (seeds) with its 95 % interval, to an image file.

    ``runs`` maps a label to run folders or progress files; ``x`` and ``y`` are column names. A line ends where the
    shortest of its runs ends.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not runs or not all(runs.values()):
        raise ValueError(f"nothing to plot: every label needs at least one run folder, got {dict(runs)}")
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    curves = {label: [read_curve(folder, x, y) for folder in folders] for label, folders in runs.items()}
    label_is_title = title is None and len(runs) == 1
    for (label, seeds), colour in zip(curves.items(), itertools.cycle(PALETTE), strict=False):
        _draw_with_interval(axes, seeds, "" if label_is_title else f"{label}, ", colour)
    drawn = [curve for seeds in curves.values() for curve in seeds]
    if any(len(steps) > 1 for steps, _ in drawn):  # where all is one point, its interval is what there is to see
        _limit_to_data(axes, np.concatenate([values for _, values in drawn]))
    _dress(axes, x, y, title or literal(next(iter(runs)) if label_is_title else _heading(y)))
    target = Path(path)
    if not target.suffix:
        target = target.with_suffix(".png")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=200)
    return target


def _draw_with_interval(axes: Axes, curves: Sequence[tuple[Array, Array]], label: str, colour: str) -> None:
    grid, mean, low, high = average_curves(curves)
    is_point = len(grid) == 1
    seeds = f"mean of {len(curves)} seeds with 95 % interval" if len(curves) > 1 else "one seed"
    text = textwrap.fill(literal(label) + seeds, LEGEND_WIDTH)
    axes.plot(grid, mean, color=colour, linewidth=1.8, marker="o" if is_point else "", label=text)
    if len(curves) > 1 and is_point:
        axes.errorbar(grid, mean, yerr=[mean - low, high - mean], color=colour, capsize=4)
    elif len(curves) > 1:
        axes.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)


def _limit_to_data(axes: Axes, values: Array) -> None:
    """Let the interval of two seeds, many times wider than their difference, leave the picture rather than rule it."""
    bottom, top = axes.get_ylim()
    margin = 0.25 * (values.max() - values.min())
    if margin > 0:
        axes.set_ylim(max(bottom, values.min() - margin), min(top, values.max() + margin))


def average_curves(
    curves: Sequence[tuple[Array, Array]],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Grid of x, and mean, lower and upper 95 % bound of y there: ``[point]`` each.

    The grid has every x of the runs within the range that all of them cover; between its points a run is linear.
    """
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if start > end:
        raise ValueError(f"the runs share no range of x: one starts at {start:g}, another ends at {end:g}")
    grid = np.unique(np.concatenate([x[(x >= start) & (x <= end)] for x, _ in curves]))
    values = np.array([np.interp(grid, x, y) for x, y in curves])  # [run, point]
    return grid, *mean_intervals(values)


def literal(text: str) -> str:
    """A name as it is: between two dollar signs Matplotlib reads a formula."""
    return text.replace("$", r"\$")


def _heading(column: str) -> str:
    """A column's name as a title; only words of ours get a capital letter."""
    return LABELS[column].capitalize() if column in LABELS else column


def _dress(axes: Axes, x: str, y: str, title: str) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_title("\n".join(textwrap.wrap(title, 72)), loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel(literal(LABELS.get(x, x)))
    axes.set_ylabel(literal(LABELS.get(y, y)))
    axes.margins(x=0.01)
    if max(map(abs, axes.get_xlim())) >= 1000:  # below, it would write 0.5 as 500m
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k, 1.5M
    axes.grid(color="#D9D9D9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _add_legend(axes)


def _add_legend(axes: Axes) -> None:
    """Within the axes; a long legend would hide the curves and goes below them, where the picture grows for it."""
    lines = sum(1 + label.count("\n") for label in axes.get_legend_handles_labels()[1])
    if lines <= LEGEND_LINES_WITHIN:
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none")
        return
    figure: Any = axes.figure
    figure.set_figheight(figure.get_figheight() + 0.2 * lines)
    figure.legend(loc="outside lower left", frameon=False)


def progress_file(run: Path) -> Path:
    """The file of a run's metrics; ``run`` may be that file itself."""
    candidates = [run / "progress.csv", run / "progress.json"] if run.is_dir() else [run]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"{run} is no run: expected a folder with progress.csv or progress.json, or such a file")


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a file as the cells that they have, one in memory at a time; of a table its header comes first."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = bounded_lines(file, "it")
            rows = _cells(lines) if path.suffix == ".csv" else (_table(line) for line in lines if line.strip())
            names: dict[str, None] = {}
            for row in rows:
                if row.keys() - names.keys():
                    names.update(dict.fromkeys(row))
                if len(names) > MOST_COLUMNS:
                    raise ModelFileError(f"it has more than {MOST_COLUMNS} columns")
                yield row
    except (csv.Error, UnicodeDecodeError, ModelFileError) as error:
        raise ValueError(f"{path} holds no metrics ({printable(str(error))}); give the folder of a run") from error


def _cells(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    table = csv.reader(lines)
    header = next(table, [])
    yield dict.fromkeys(header)
    for line in table:
        yield dict(zip(header, line, strict=False))


def _table(line: str) -> Mapping[str, Any]:
    table = parse_json(line.encode(), Budgets(), "a line", strict=False)
    return table if isinstance(table, dict) else {}


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        return math.nan
