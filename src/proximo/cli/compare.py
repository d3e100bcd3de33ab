"""``proximo compare``: which group of runs is better, and how sure is that?"""

from __future__ import annotations

import glob
import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
import tyro

from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import Count, OptionalPath, default_is

if TYPE_CHECKING:
    from rich.table import Table

    from proximo.analysis.comparison import Comparison, Estimate
    from proximo.cli.runs import Run
    from proximo.data import Array
    from proximo.reports.results import RunResult

SUMMARY = """Compare groups of runs by their scores: interquartile mean (IQM), mean, probability that a run of one beats
a run of another, and performance profiles, each with its 95 % interval (stratified bootstrap over the runs of every
task). A group is a folder of runs or a pattern in quotes; its environments are the tasks."""
EXAMPLES = (
    "proximo compare runs/ppo runs/a2c",
    "proximo compare PPO='runs/*-ppo-*' A2C='runs/*-a2c-*' -o comparison.png --latex comparison.tex",
    "proximo compare runs/before runs/after --score training",
    "proximo compare runs/ppo runs/ppg --normalize scores.toml",
)
PROFILE_COLUMNS = (20, 40, 50, 60, 80)  # thresholds that are printed, in percent of the range of scores


@dataclass(frozen=True, kw_only=True)
class Compare:
    """What to compare, and how."""

    groups: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="GROUP GROUP [GROUP …]", help_behavior_hint="(required)"),
    ] = flag("[LABEL=]FOLDER with runs in it, or [LABEL=]'PATTERN' of run folders.", ())
    score: Literal["auto", "evaluation", "training"] = flag(
        "What a run is compared by: the mean return of its last evaluation, or of its last 100 training episodes; auto "
        "takes evaluations if all runs have one.",
        "auto",
    )
    normalize: Annotated[str, tyro.conf.arg(metavar="{auto,none,minmax}|FILE")] = flag(
        "Scores per task: none leaves them; minmax makes the lowest and highest of all compared runs 0 and 1; a TOML "
        "file gives both for each environment, '\"Ant-v5\" = [0.0, 6000.0]'. auto is none for one task and minmax for "
        "several.",
        "auto",
    )
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"]), default_is("no picture")] = flag(
        "File of a picture: .png, .svg or .pdf.", None
    )
    latex: Annotated[OptionalPath, default_is("no table")] = flag(
        "File of a LaTeX table; it needs the package booktabs.", None
    )
    repetitions: Count = flag("Resamples of the bootstrap.", 50_000)
    seed: Count = flag("Seed of the bootstrap.", 0)


def run(words: Sequence[str]) -> int:
    arguments = parse(Compare, "compare", SUMMARY, EXAMPLES, words)
    check_at_least("--repetitions", arguments.repetitions, 1)
    check_at_least("--seed", arguments.seed, 0)
    from proximo.analysis.comparison import compare, plot_comparison
    from proximo.cli.console import output, print_table, shown_path

    groups = {label: read_group(label, runs) for label, runs in found_groups(arguments.groups).items()}
    tasks = common_tasks(groups)
    score, results = chosen_scores(arguments.score, groups)
    scores = {label: score_matrix(label, by_task, tasks) for label, by_task in results.items()}
    scores, scale = normalized(arguments.normalize, scores, tasks)
    comparison = compare(scores, arguments.repetitions, arguments.seed)
    title = f"{score}{scale}, {len(tasks)} task{'s' if len(tasks) > 1 else ''}"
    found = tables(comparison, title)
    for table in found:
        print_table(rich_table(table))
    if arguments.output is not None:
        output().print(shown_path(plot_comparison(comparison, arguments.output, f"{score}{scale}")), markup=False)
    if arguments.latex is not None:
        arguments.latex.parent.mkdir(parents=True, exist_ok=True)
        arguments.latex.write_text("\n".join(map(latex_table, found)), encoding="utf-8")
        output().print(shown_path(arguments.latex), markup=False)
    return 0


# ----------------------------------------------------------------------------------------------------------- groups


def found_groups(words: Sequence[str]) -> dict[str, list[Run]]:
    """The runs of each group by its label."""
    from proximo.cli.report import found_runs
    from proximo.cli.runs import Run

    if len(words) < 2:
        raise ValueError(
            f"got {len(words)} group{'' if len(words) == 1 else 's'}; expected two or more folders of runs, or "
            "patterns in quotes, such as 'runs/*-ppo-*' 'runs/*-a2c-*'"
        )
    groups: dict[str, list[Run]] = {}
    for word in words:
        label, pattern = _label_and_pattern(word)
        if label in groups:
            raise ValueError(f"two groups are called {label!r}; give labels: FIRST={pattern} SECOND=…")
        paths = [Path(pattern)] if Path(pattern).exists() else [Path(path) for path in sorted(glob.glob(pattern))]
        if not paths:
            raise ValueError(f"the group {word} has no runs: nothing has the name or pattern {pattern!r}")
        groups[label] = Run.open_all(found_runs(paths))
    return groups


def _label_and_pattern(word: str) -> tuple[str, str]:
    label, equals, pattern = word.partition("=")
    if equals and label and not Path(word).exists():
        return label, pattern
    return Path(word).name or word, word


def read_group(label: str, runs: Sequence[Run]) -> dict[str, list[RunResult]]:
    """The runs of a group by their environment, by rising seed; what makes them no repetitions is a warning."""
    from proximo.cli.plot import runs_by_label
    from proximo.cli.runs import warn_about_equal_seeds
    from proximo.reports.results import read_run

    trainings = runs_by_label(runs)
    if len(trainings) > len({run.config.env for run in runs}):
        warnings.warn(f"the group {label} mixes trainings that differ: {'; '.join(trainings)}", stacklevel=2)
    by_task: dict[str, list[RunResult]] = {}
    for repetitions in trainings.values():
        warn_about_equal_seeds(repetitions)
    for run in sorted(runs, key=lambda run: run.config.seed):
        result = read_run(run.folder)
        if result.planned_steps is not None and result.steps < result.planned_steps:
            warnings.warn(
                f"{run.folder.path} is at {result.steps:,} of {result.planned_steps:,} steps; it is compared as it is",
                stacklevel=2,
            )
        by_task.setdefault(run.config.env, []).append(result)
    return by_task


def common_tasks(groups: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The environments, which must be the same in all groups."""
    tasks = sorted({task for by_task in groups.values() for task in by_task})
    for label, by_task in groups.items():
        if missing := [task for task in tasks if task not in by_task]:
            raise ValueError(
                f"the group {label} has no run on {', '.join(missing)}, which others have; compare groups with the "
                "same environments"
            )
    return tasks


def chosen_scores(
    choice: str, groups: Mapping[str, Mapping[str, Sequence[RunResult]]]
) -> tuple[str, dict[str, dict[str, list[float]]]]:
    """What the scores are, and those of each group and task; all of one kind."""
    runs = [result for by_task in groups.values() for results in by_task.values() for result in results]
    evaluated = [result for result in runs if result.evaluation is not None]
    if choice == "auto":
        choice = "evaluation" if len(evaluated) == len(runs) else "training"
    name = "return of the last evaluation" if choice == "evaluation" else "return of the last training episodes"

    def score(result: RunResult) -> float:
        if choice == "evaluation" and result.evaluation is not None:
            return result.evaluation.interval.mean
        if choice == "training" and result.training_return is not None:
            return result.training_return
        what = (
            "finished episode; train it to its end, or leave it out: a group may be a pattern of run folders"
            if choice == "training"
            else "evaluation; --score training does without"
        )
        raise ValueError(f"{result.folder.path} has no {what}")

    return name, {
        label: {task: [score(result) for result in results] for task, results in by_task.items()}
        for label, by_task in groups.items()
    }


def score_matrix(label: str, by_task: Mapping[str, Sequence[float]], tasks: Sequence[str]) -> Array:
    """[run, task]; where tasks have unequal numbers of runs, the first ones by seed, and a warning."""
    fewest = min(len(by_task[task]) for task in tasks)
    if surplus := [task for task in tasks if len(by_task[task]) > fewest]:
        warnings.warn(
            f"the group {label} has more than {fewest} runs on {', '.join(surplus)}: those with the {fewest} lowest "
            "seeds are compared, so that every task has as many",
            stacklevel=2,
        )
    return np.array([by_task[task][:fewest] for task in tasks]).T


def normalized(choice: str, scores: dict[str, Array], tasks: Sequence[str]) -> tuple[dict[str, Array], str]:
    """Scores on one scale, and what to say of it."""
    from proximo.analysis.aggregates import min_max_normalize

    if choice == "none" or (choice == "auto" and len(tasks) == 1):
        if len(tasks) > 1:
            warnings.warn(
                "the scores of several tasks are compared as they are: the largest rule the mean", stacklevel=2
            )
        return scores, ""
    if choice in ("auto", "minmax"):
        everything = np.concatenate(list(scores.values()))
        low, high = everything.min(axis=0), everything.max(axis=0)
        scale = " (of each task, the lowest run is 0 and the highest 1)"
    else:
        low, high = np.array([_range_of(task, _ranges(Path(choice)), choice) for task in tasks]).T
        scale = f" (normalised by {Path(choice).name})"
    return {label: min_max_normalize(matrix, low, high) for label, matrix in scores.items()}, scale


def _ranges(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"--normalize is {path}; expected auto, none, minmax, or a TOML file that exists") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML ({error})") from error


def _range_of(task: str, ranges: Mapping[str, object], source: str) -> list[float]:
    given = ranges.get(task)
    if not (isinstance(given, list) and len(given) == 2 and all(isinstance(each, int | float) for each in given)):
        raise ValueError(f'{source} needs the scores that become 0 and 1 for each task: "{task}" = [0.0, 500.0]')
    return given


# ---------------------------------------------------------------------------------------------------------- tables


class TableOfText(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]


def tables(comparison: Comparison, title: str) -> list[TableOfText]:
    """Aggregates, probabilities of improvement, and profiles at a few thresholds."""
    groups = comparison.scores
    aggregates = [[group, _runs(comparison, group), *_aggregate_cells(comparison, group)] for group in groups]
    pairs = [
        [f"{x} > {y}", f"{estimate.value:.3f}", _bounds(estimate, 3), _verdict(comparison, x, y)]
        for (x, y), estimate in comparison.improvements.items()
    ]
    thresholds = [f"{comparison.thresholds[index]:.4g}" for index in PROFILE_COLUMNS]
    profiles = [
        [group, *(_profile_cell(comparison.profile_at(group, index)) for index in PROFILE_COLUMNS)] for group in groups
    ]
    return [
        TableOfText(title, ["group", "runs", "IQM", "95 % interval", "mean", "95 % interval"], aggregates),
        TableOfText("probability of improvement", ["pair", "P", "95 % interval", "better"], pairs),
        TableOfText("fraction of runs above", ["group", *thresholds], profiles),
    ]


def rich_table(text: TableOfText) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(text.title), title_justify="left", title_style="bold")
    for index, name in enumerate(text.header):
        table.add_column(name, justify="right" if index else "left")
    for row in text.rows:
        table.add_row(*map(escape, row))
    return table


def _runs(comparison: Comparison, group: str) -> str:
    runs, tasks = comparison.scores[group].shape
    return str(runs) if tasks == 1 else f"{runs} × {tasks}"


def _aggregate_cells(comparison: Comparison, group: str) -> list[str]:
    estimates = [by_group[group] for by_group in comparison.aggregates.values()]
    digits = 2 if max(abs(value) for estimate in estimates for value in estimate) >= 10 else 3
    return [text for each in estimates for text in (f"{each.value:.{digits}f}", _bounds(each, digits))]


def _bounds(estimate: Estimate, digits: int) -> str:
    return f"{estimate.low:.{digits}f} … {estimate.high:.{digits}f}"


def _profile_cell(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({_bounds(estimate, 2)})"


def _verdict(comparison: Comparison, x: str, y: str) -> str:
    """Whose runs win more often, where the interval leaves no doubt and there are enough of them."""
    estimate = comparison.improvements[x, y]
    if not comparison.can_tell_apart(x, y):
        return "too few runs"
    return x if estimate.low > 0.5 else y if estimate.high < 0.5 else "undecided"


_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\ldots{}", ">": "$>$", "<": "$<$", "×": r"$\times$",
}  # fmt: skip


def latex_text(text: str) -> str:
    r"""
    >>> print(latex_text("50 % of my_runs"))
    50 \% of my\_runs
    >>> print(latex_text("-3.5 … 2.0"))
    $-$3.5 \ldots{} 2.0
    """
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<!\S)-(?=\d)", "$-$", escaped)


def latex_table(text: TableOfText) -> str:
    """A ``tabular`` environment of booktabs, its title a comment above it."""
    rows = [f"{' & '.join(map(latex_text, row))} \\\\" for row in (text.header, *text.rows)]
    lines = [
        f"% {' '.join(text.title.split())}", f"\\begin{{tabular}}{{l{'r' * (len(text.header) - 1)}}}", r"\toprule",
        rows[0], r"\midrule", *rows[1:], r"\bottomrule", r"\end{tabular}", "",
    ]  # fmt: skip
    return "\n".join(lines)
