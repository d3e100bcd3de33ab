"""A report's content as plain values for JSON: text as it shall be read, numbers only where a chart needs them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proximo.analysis.plotting import LABELS, average_curves
from proximo.config import RENAMED
from proximo.functional.statistics import Interval, mean_interval
from proximo.reports.results import TRAINING_RETURN, Curve, RunResult
from proximo.version import __version__

Json: TypeAlias = dict[str, Any]

POINTS_OF_A_CURVE = 800
POINTS_OF_A_METRIC = 250
MOST_METRICS = 60
MOST_CHARACTERS = 4000  # of a text from a run folder
MOST_VALUES, LONGEST_NAME = 1000, 200  # of a table of settings or versions
NOT_METRICS = (TRAINING_RETURN, "time/total_timesteps", "time/iterations", "time/time_elapsed", "eval/mean_reward")
NONE = "–"


@dataclass(frozen=True)
class Member:
    """A run of a report: what it holds, how to repeat it, and where a browser finds its film."""

    result: RunResult
    name: str
    command: str
    film: str | None = None  # an address: data: or a path of the server
    film_note: str = ""  # why there is none


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    label: str
    title: str  # of the algorithm
    members: Sequence[Member]

    @property
    def env(self) -> str:
        return self.members[0].result.env


def report_content(groups: Sequence[Group], title: str | None = None, notes: Iterable[str] = ()) -> Json:
    """Everything that the page shows of these groups."""
    members = [member for group in groups for member in group.members]
    return {
        "title": shown(title or _title(groups)),
        "subtitle": _subtitle(groups),
        "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "proximo": __version__,
        "running": any(member.result.status == "running" for member in members),
        "notes": [shown(note) for note in notes],
        "groups": [shown(group.label) for group in groups],
        "results": _results(groups),
        "tasks": [_task(env, groups) for env in dict.fromkeys(group.env for group in groups)],
        "films": [_film(member) for member in members if member.film or member.film_note],
        "settings": _table_of_values(groups, _settings),
        "versions": _table_of_values(groups, lambda result: _flat(result.versions)),
        "times": [_times(index, group, member) for index, group in enumerate(groups) for member in group.members],
        "warnings": _warnings(members),
        "journals": any(member.result.journal for member in members),
        "repeat": [_repeat(member) for member in members],
    }


def _title(groups: Sequence[Group]) -> str:
    titles, envs = dict.fromkeys(group.title for group in groups), dict.fromkeys(group.env for group in groups)
    tasks = next(iter(envs)) if len(envs) == 1 else f"{len(envs)} environments"
    return f"{' and '.join(titles) if len(titles) < 4 else f'{len(titles)} algorithms'} on {tasks}"


def _subtitle(groups: Sequence[Group]) -> str:
    runs = sum(len(group.members) for group in groups)
    return f"{count(runs, 'run')} in {count(len(groups), 'group')}" if len(groups) > 1 else count(runs, "run")


# ---------------------------------------------------------------------------------------------------------- results


def _results(groups: Sequence[Group]) -> Json:
    columns = ["run", "steps", "training return", "evaluation", "best evaluation", "episode length", "state"]
    rows = []
    for index, group in enumerate(groups):
        results = [member.result for member in group.members]
        if len(results) > 1:
            rows.append({"group": index, "mean": True, "inner": False, "cells": _mean_cells(group.label, results)})
        for member in group.members:
            inner = len(results) > 1
            label = f"seed {member.result.seed}" if inner else f"{group.label}, seed {member.result.seed}"
            rows.append({"group": index, "mean": False, "inner": inner, "cells": _run_cells(label, member)})
    return {"columns": columns, "rows": rows}


def _run_cells(label: str, member: Member) -> list[Json]:
    result = member.result
    evaluation, best = result.evaluation, result.best_evaluation
    return [
        cell(label, member.name),
        cell(f"{result.steps:,}", _of_planned(result)),
        cell(_number(result.training_return)),
        cell(NONE)
        if evaluation is None
        else _mean_cell(evaluation.interval, count(len(evaluation.returns), "episode")),
        cell(NONE) if best is None else cell(_number(best.interval.mean), f"at {best.steps:,} steps"),
        cell(_number(result.last("rollout/ep_len_mean"), 1)),
        cell(result.status, result.error or "", state=result.status),
    ]


def _mean_cells(label: str, results: Sequence[RunResult]) -> list[Json]:
    """Means over the runs that have the number; an interval over seeds, not over episodes."""
    returns = [result.training_return for result in results if result.training_return is not None]
    evaluations = [result.evaluation.interval.mean for result in results if result.evaluation is not None]
    bests = [result.best_evaluation.interval.mean for result in results if result.best_evaluation is not None]
    lengths = [length for result in results if (length := result.last("rollout/ep_len_mean")) is not None]
    states = sorted({result.status for result in results})

    def mean(values: list[float]) -> Json:
        """Where not all seeds have the number, it says how many have."""
        if not values:
            return cell(NONE)
        return _mean_cell(mean_interval(values), "" if len(values) == len(results) else count(len(values), "seed"))

    return [
        cell(label, f"mean of {len(results)} seeds"),
        cell(_from_to([result.steps for result in results]), "each"),
        *(mean(values) for values in (returns, evaluations, bests)),
        cell(_number(float(np.mean(lengths)), 1) if lengths else NONE),
        cell(", ".join(states), state=states[0] if len(states) == 1 else ""),
    ]


def _from_to(steps: Sequence[int]) -> str:
    return f"{min(steps):,}" if min(steps) == max(steps) else f"{min(steps):,} … {max(steps):,}"


def _mean_cell(interval: Interval, what: str = "") -> Json:
    mean, low, high = interval
    bounds = "" if math.isnan(low) else f"{low:.2f} … {high:.2f}"
    return cell(f"{mean:.2f}", ", ".join(part for part in (bounds, what) if part))


def cell(text: str, note: str = "", **more: str) -> Json:
    return {"text": shown(text), "note": shown(note), **{name: shown(value) for name, value in more.items()}}


def _of_planned(result: RunResult) -> str:
    return f"of {result.planned_steps:,}" if result.planned_steps and result.steps < result.planned_steps else ""


def _number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:,.{digits}f}".replace(",", "")


# ----------------------------------------------------------------------------------------------------------- curves


def _task(env: str, groups: Sequence[Group]) -> Json:
    """The charts of one environment: returns in training, in evaluation, and every other metric."""
    here = [(index, group) for index, group in enumerate(groups) if group.env == env]
    charts = [
        _chart(
            "Training return",
            "mean of the latest 100 episodes, over steps",
            _training_series(here, TRAINING_RETURN),
        ),
        _chart(
            "Evaluation return",
            "mean of each evaluation, over steps",
            _evaluation_series(here),
        ),
    ]
    columns = dict.fromkeys(
        name
        for _, group in here
        for member in group.members
        for name in member.result.curves
        if name not in NOT_METRICS
    )
    metrics = [
        _chart(name, LABELS.get(name, name), _training_series(here, name, POINTS_OF_A_METRIC, with_runs=False))
        for name in sorted(columns)[:MOST_METRICS]
    ]
    shown_charts = [chart for chart in charts if chart["series"]]
    return {"env": shown(env), "charts": shown_charts, "metrics": metrics, "columns": len(columns)}


def _chart(title: str, label: str, series: list[Json]) -> Json:
    return {"title": shown(title), "label": shown(label), "series": series}


def _training_series(
    groups: Sequence[tuple[int, Group]], column: str, points: int = POINTS_OF_A_CURVE, with_runs: bool = True
) -> list[Json]:
    named = [
        (
            index,
            group,
            [(member, member.result.curves[column]) for member in group.members if column in member.result.curves],
        )
        for index, group in groups
    ]
    return [_series(index, group, curves, points, with_runs) for index, group, curves in named if curves]


def _evaluation_series(groups: Sequence[tuple[int, Group]]) -> list[Json]:
    series = []
    for index, group in groups:
        curves = [(member, _evaluation_curve(member.result)) for member in group.members if member.result.evaluations]
        if not curves:
            continue
        entry = _series(index, group, curves, POINTS_OF_A_CURVE, with_runs=True)
        if len(curves) == 1:  # one run: the interval is that of the episodes
            intervals = [result.interval for result in curves[0][0].result.evaluations]
            kept = _kept(curves[0][1][1], POINTS_OF_A_CURVE)
            entry["low"] = numbers([intervals[point].low for point in kept])
            entry["high"] = numbers([intervals[point].high for point in kept])
            entry["interval"] = "95 % interval over episodes"
        series.append(entry)
    return series


def _evaluation_curve(result: RunResult) -> Curve:
    steps = np.array([evaluation.steps for evaluation in result.evaluations], np.float64)
    return steps, np.array([evaluation.interval.mean for evaluation in result.evaluations])


def _series(index: int, group: Group, curves: Sequence[tuple[Member, Curve]], points: int, with_runs: bool) -> Json:
    """The mean over runs with its interval, as far as the shortest run goes, and each run by itself."""
    try:
        grid, mean, low, high = average_curves([curve for _, curve in curves])
    except ValueError:  # one run ended before another began to log
        (grid, mean), curves = curves[0][1], curves[:1]
        low = high = np.full_like(mean, math.nan)
    kept = _kept(mean, points)
    several = len(curves) > 1
    entry: Json = {
        "group": index,
        "name": shown(group.label),
        "runs": len(curves),
        "interval": f"mean of {len(curves)} seeds, 95 % interval" if several else "one seed",
        "x": numbers(grid[kept]),
        "mean": numbers(mean[kept]),
        "low": numbers(low[kept]) if several else [],
        "high": numbers(high[kept]) if several else [],
        "members": [],
    }
    if with_runs and several:
        for member, (x, y) in curves:
            kept = _kept(y, points)
            entry["members"].append(
                {"name": f"seed {shown(member.result.seed)}", "x": numbers(x[kept]), "y": numbers(y[kept])}
            )
    return entry


def _kept(values: NDArray[np.float64], points: int) -> NDArray[np.int64]:
    """Indices of at most ``points`` points that keep the shape: first, last, and the extremes of equal pieces.

    >>> _kept(np.array([0.0, 5.0, 1.0, 2.0, -3.0, 0.0, 1.0, 1.0]), 6).tolist()
    [0, 1, 4, 6, 7]
    """
    if len(values) <= points:
        return np.arange(len(values))
    pieces = np.array_split(np.arange(len(values)), max(1, points // 2 - 1))
    extremes = [piece[choose(values[piece])] for piece in pieces for choose in (np.argmin, np.argmax)]
    return np.unique([0, *extremes, len(values) - 1])


def numbers(values: Iterable[float]) -> list[float | int | None]:
    """Numbers for JSON: whole ones exactly, others to seven digits, and null for NaN and infinity."""
    return [_json_number(float(value)) for value in values]


def _json_number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.7g}")


# ----------------------------------------------------------------------------------------------- tables of settings


def _settings(result: RunResult) -> dict[str, str]:
    """What was trained, then what the session was asked to do besides."""
    table = {RENAMED.get(name, name): value for name, value in result.config.items() if name not in ("seed", "session")}
    session = result.config.get("session")
    return _flat({**table, **({"session": session} if isinstance(session, Mapping) else {})})


def _flat(table: Mapping[str, Any]) -> dict[str, str]:
    """Nested tables as dotted names, values as text."""
    return dict(islice(_named_values(table), MOST_VALUES + 1))


def _named_values(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = prefix + shown(key, LONGEST_NAME)
        if isinstance(value, Mapping):
            yield from _named_values(value, f"{shown(name, LONGEST_NAME)}.")
        else:
            yield name, _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def _table_of_values(groups: Sequence[Group], read: Callable[[RunResult], dict[str, str]]) -> Json:
    """Names and values: those that differ as one column per group, and those that are the same everywhere."""
    per_group = [[read(member.result) for member in group.members] for group in groups]
    names = dict.fromkeys(name for tables in per_group for table in tables for name in table)
    different, same = [], []
    for name in list(names)[:MOST_VALUES]:
        values = [list(dict.fromkeys(table.get(name, NONE) for table in tables)) for tables in per_group]
        if all(value == values[0] and len(value) == 1 for value in values):
            same.append([shown(name), shown(values[0][0])])
        else:
            different.append([shown(name), *(shown(" / ".join(value)) for value in values)])
    if len(names) > MOST_VALUES:
        same.append(["…", "and more than a page shows"])
    return {"different": different, "same": same}


# -------------------------------------------------------------------------------------------------------- the rest


def _film(member: Member) -> Json:
    path = member.result.film
    caption = f"{member.name}{f', {path.name}' if path is not None else ''}"
    is_video = path is not None and path.suffix == ".mp4"
    return {"caption": shown(caption), "address": member.film, "video": is_video, "note": shown(member.film_note)}


def _times(index: int, group: Group, member: Member) -> Json:
    result = member.result
    seconds = result.seconds
    total = sum(seconds.values())
    elapsed = total or result.last("time/time_elapsed") or 0.0
    shares = {name: 100 * spent / total for name, spent in seconds.items()}
    return {
        "group": index,
        "name": shown(f"{group.label}, seed {result.seed}"),
        "speed": NONE if result.speed is None else f"{result.speed:,.0f}",
        "total": duration(elapsed) if elapsed else NONE,
        "shares": [
            {"name": name, "share": round(share, 3), "text": f"{name} {share:.0f} %", "time": duration(seconds[name])}
            for name, share in shares.items()
        ],
    }


def _warnings(members: Sequence[Member]) -> list[Json]:
    by_text: dict[str, list[str]] = {}
    for member in members:
        for text in member.result.warnings:
            by_text.setdefault(text, []).append(member.name)
    return [{"text": shown(text), "runs": [shown(name) for name in names]} for text, names in by_text.items()]


def _repeat(member: Member) -> Json:
    config = member.result.folder.config.read_text(encoding="utf-8", errors="replace")
    return {"name": shown(member.name), "command": member.command, "config": shown(config, 10 * MOST_CHARACTERS)}


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text from a run folder as JSON can hold it: no half characters, and not without end."""
    whole = text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"
    return whole.encode("utf-8", "replace").decode("utf-8")


def count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """
    >>> duration(3.21), duration(75), duration(7384)
    ('3.2 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
