"""``proximo plot``: learning curves of run folders as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from proximo.cli.algorithms import algorithm_title
from proximo.cli.command import flag, parse
from proximo.cli.flags import OptionalPath, OptionalText, RunFolders, default_is
from proximo.cli.runs import Run, warn_about_equal_seeds

SUMMARY = """Draw the learning curves of run folders. Runs that differ only in their seed become one curve, their mean,
with its 95 % interval."""
EXAMPLES = (
    "proximo plot runs/CartPole-v1-*",
    "proximo plot RUN -o curve.png --x time/time_elapsed",
    "proximo plot runs/Pendulum-v1-* --y train/explained_variance",
)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Which runs to draw, and where to."""

    runs: RunFolders = flag("Run folders, as made by proximo train.")
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"]), default_is("learning_curve.png")] = flag(
        "File of the picture: .png, .svg or .pdf.", None
    )
    x: str = flag("Column of progress.csv for the horizontal axis.", "time/total_timesteps")
    y: str = flag("Column of progress.csv for the vertical axis.", "rollout/ep_rew_mean")
    title: Annotated[OptionalText, default_is("what is drawn")] = flag("Title of the picture.", None)


def run(words: Sequence[str]) -> int:
    arguments = parse(Plot, "plot", SUMMARY, EXAMPLES, words)
    from proximo.analysis.plotting import plot_learning_curves, progress_file
    from proximo.cli.console import output, shown_path

    runs = Run.open_all(arguments.runs)
    for each in runs:
        for file in (each.folder.config, progress_file(each.folder.path)):
            each.folder.brought(file)
    folder = runs[0].folder
    default = folder.own(folder.learning_curve) if len(runs) == 1 else Path("learning_curve.png")
    path = plot_learning_curves(
        grouped(runs),
        arguments.output or default,
        x=arguments.x,
        y=arguments.y,
        title=arguments.title,
    )
    output().print(shown_path(path), markup=False)
    return 0


def grouped(runs: Sequence[Run]) -> dict[str, list[Path]]:
    """Folders by label, as :func:`runs_by_label` has them; equal seeds within a label are a warning."""
    labelled = runs_by_label(runs)
    for group in labelled.values():
        warn_about_equal_seeds(group)
    return {label: [run.folder.path for run in group] for label, group in labelled.items()}


def runs_by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ only in their seed share a label, which names what sets them apart from others."""
    distinct: list[dict[str, Any]] = []
    members: list[list[Run]] = []
    for run in runs:
        row = run.config.without_seed()
        if row not in distinct:
            distinct.append(row)
            members.append([])
        members[distinct.index(row)].append(run)
    return dict(zip(_labels(distinct), members, strict=True))


def _labels(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Algorithm and environment, and where several rows have the same, the values in which these differ.

    >>> _labels([{"algo": "ppo", "env": "A", "gamma": 0.9}, {"algo": "ppo", "env": "A", "gamma": 0.99}])
    ['PPO on A, gamma 0.9', 'PPO on A, gamma 0.99']
    """
    labels = []
    for row in rows:
        rivals = [other for other in rows if (other["algo"], other["env"]) == (row["algo"], row["env"])]
        keys = sorted({key for other in rivals for key in other})
        differing = [key for key in keys if any(other.get(key) != row.get(key) for other in rivals)]
        parts = [f"{key} {row[key]}" for key in differing if key in row]
        labels.append(", ".join([f"{algorithm_title(row['algo'])} on {row['env']}", *parts]))
    return labels


def draw_curve(run: Run) -> None:
    """The learning curve of one run, into its folder; a run in which no episode ended has none."""
    from proximo.analysis.plotting import plot_learning_curves, read_curve

    try:
        read_curve(run.folder.path, "time/total_timesteps", "rollout/ep_rew_mean")
    except ValueError:
        return
    plot_learning_curves(grouped([run]), run.folder.learning_curve)
