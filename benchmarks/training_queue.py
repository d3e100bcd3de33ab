"""A queue of long trainings that can be stopped and goes on: one file per finished run, table and curves of those.

Each training is the ``proximo train`` that a user would type, in a process of its own; an interrupted one goes on from
its latest checkpoint. ``benchmarks.pybullet`` and ``benchmarks.minatar`` say what is trained and what the page tells;
those of ``benchmarks.pybullet_peer`` are of Stable-Baselines3.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.live import Live
from rich.table import Table
from scipy import stats

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show
from proximo.cli.flags import seed_numbers
from proximo.cli.main import main as proximo
from proximo.cli.playing import evaluate_run
from proximo.cli.runs import Run
from proximo.cli.trainings import end_with_parent
from proximo.cores import shared_out
from proximo.functional.statistics import Interval, mean_interval
from proximo.training.run_folder import RunFolderError, git_revision

STEPS = 2_000_000
CHECKPOINT_EVERY = 200_000
EVALUATION_EPISODES = 20
CURVE_POINTS = 100

Curve = list[tuple[int, float]]  # steps, and the mean return of the latest hundred training episodes then


class Outcome(NamedTuple):
    """What came of a training."""

    evaluation: Sequence[float]  # the return of each episode
    curve: Curve
    command: str
    cpu_seconds: int | None


@dataclass(frozen=True)
class Training:
    """One cell of a table with one seed; the fields of a subclass say which cell, the first of them the task."""

    benchmark: ClassVar[str]  # whose module started it and can be told to train it, and whose results it is among
    seed: int

    @abstractmethod
    def environment(self) -> str:
        """The environment's id."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What ``proximo train`` is told, beside what all trainings share."""

    @classmethod
    def named(cls, name: str) -> Training:
        """The training whose :attr:`name` that is."""
        *cell, seed = name.split("-")
        return cls(int(seed), *cell)

    def facts(self) -> dict[str, str]:
        """What the result's file says of it, beside what came out."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "seed"}

    @property
    def cell(self) -> str:
        return "-".join(self.facts().values())

    @property
    def name(self) -> str:
        return f"{self.cell}-{self.seed}"

    @property
    def result(self) -> Path:
        return RESULTS / self.benchmark / f"{self.name}.json"

    def arguments(self, runs: Path) -> list[str]:
        """What ``proximo`` is told."""
        options = {
            **self.options(),
            "--seed": self.seed,
            "--steps": STEPS,
            "--checkpoint-every": CHECKPOINT_EVERY,
            "--eval-episodes": 0,  # they are played after the training, and written down
            "--runs-dir": runs / self.name,
        }
        return ["train", self.environment(), *(str(word) for pair in options.items() for word in pair)]

    def run_folder(self, runs: Path) -> Path | None:
        """The folder of an earlier attempt."""
        found = sorted((runs / self.name).glob("*/config.toml"))
        return found[-1].parent if found else None

    def log(self, runs: Path) -> Path:
        return runs / self.name / "log.txt"

    def run(self, runs: Path) -> Outcome:
        """Train, or go on from the latest checkpoint, and evaluate."""
        earlier = self.run_folder(runs)
        resumable = earlier is not None and any((earlier / "checkpoints").glob("*.zip"))
        code = proximo(["train", "--resume", str(earlier)] if resumable else self.arguments(runs))
        if code != 0:
            sys.exit(code)
        folder = self.run_folder(runs)
        if folder is None:
            raise RunFolderError(f"the training left no run folder in {runs / self.name}")
        evaluation = evaluate_run(Run.open(folder), EVALUATION_EPISODES, seed=self.evaluation_seed)
        command = " ".join(["proximo", *self.arguments(Path("runs"))])
        # the processor time of an earlier attempt is unknown, as is that of workers, children of another process
        seconds = None if resumable else cpu_seconds()
        return Outcome(evaluation.episode_rewards, read_curve(folder / "progress.csv"), command, seconds)

    @property
    def evaluation_seed(self) -> int:
        return self.seed + 1_000_000


# ------------------------------------------------------------------------------------------------------- one training


def train(training: Training, runs: Path) -> None:
    """Run it and write its result."""
    stay_in_the_background()
    outcome = training.run(runs)
    result = {
        **training.facts(),
        "seed": training.seed,
        "steps": outcome.curve[-1][0],
        "cpu_seconds": outcome.cpu_seconds,
        "evaluation": [round(value, 2) for value in outcome.evaluation],
        "last_100_episodes": outcome.curve[-1][1],
        "curve": thinned(outcome.curve),
        "command": outcome.command,
        "machine": describe_machine(),
        **(git_revision(Path(__file__).parent) or {}),
    }
    training.result.parent.mkdir(parents=True, exist_ok=True)
    partial = training.result.with_suffix(".partial")
    partial.write_text(json.dumps(result) + "\n")
    os.replace(partial, training.result)


def cpu_seconds() -> int:
    """Processor time so far: the clock also counts pauses and what else ran beside."""
    return round(sum(os.times()[:4]))


def stay_in_the_background() -> None:
    """Let ``nice`` mean what it says: Linux shares the cores between sessions first, and each run is a session."""
    group = Path("/proc/self/autogroup")
    if os.nice(0) > 0 and group.exists():
        group.write_text(str(os.nice(0)))


def read_curve(path: Path) -> Curve:
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [
        (int(float(row["time/total_timesteps"])), round(float(row["rollout/ep_rew_mean"]), 2))
        for row in rows
        if row.get("rollout/ep_rew_mean")
    ]


def thinned(curve: Curve) -> Curve:
    chosen = np.unique(np.linspace(0, len(curve) - 1, CURVE_POINTS).round().astype(int))
    return [curve[index] for index in chosen]


# ---------------------------------------------------------------------------------------------------------- the queue


def run_queue(waiting: list[Training], jobs: int, runs: Path, console: Console) -> int:
    """Train all, ``jobs`` at a time, each in a process of its own; returns the number of failures."""
    under_way: dict[Training, subprocess.Popen[bytes]] = {}
    total, failures, finished = len(waiting), 0, 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, which a shell's background job ignores
    with Live(console=console, refresh_per_second=1) as live:
        try:
            while waiting or under_way:
                while waiting and len(under_way) < jobs:
                    training = waiting.pop(0)
                    under_way[training] = start(training, jobs, runs)
                for training, process in list(under_way.items()):
                    if (code := process.poll()) is not None:
                        del under_way[training]
                        failures, finished = failures + (code != 0), finished + 1
                        told = outcome(training) if code == 0 else f"exit code {code}, see {training.log(runs)}"
                        console.print(f"{training.name}: {told} ({finished} of {total})", highlight=False)
                live.update(progress_table(list(under_way), runs))
                time.sleep(2.0)
        except KeyboardInterrupt:
            for process in under_way.values():
                process.terminate()
            for process in under_way.values():
                process.wait()
            console.print("stopped; the same command goes on from the latest checkpoints")
            return 130
    return failures


def start(training: Training, jobs: int, runs: Path) -> subprocess.Popen[bytes]:
    log = training.log(runs)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{training.benchmark}",
        "--runs-dir",
        str(runs),
        "--train",
        training.name,
    ]
    with log.open("ab") as stream:  # a process group of its own: Ctrl-C is passed on once, by the queue
        return subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **shared_out(jobs)},
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )


def outcome(training: Training) -> str:
    result = json.loads(training.result.read_text())
    return f"{np.mean(result['evaluation']):.1f} in {EVALUATION_EPISODES} episodes"


def progress_table(trainings: list[Training], runs: Path) -> Table:
    table = Table("run", "steps", "return of the latest 100 episodes")
    for training in trainings:
        folder = training.run_folder(runs)
        path = None if folder is None else folder / "progress.csv"
        curve = read_curve(path) if path is not None and path.exists() else []
        steps, value = curve[-1] if curve else (0, float("nan"))
        table.add_row(training.name, f"{steps:,} of {STEPS:,}", f"{value:.1f}")
    return table


def parse_arguments(description: str | None, runs: Path, example: str) -> argparse.Namespace:
    """The options of a queue's program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seed_numbers, default=[1, 2, 3], help="such as 1-3 or 4,7 (default: 1-3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trainings at the same time")
    parser.add_argument("--only", default="", help=f"only cells whose name contains this, such as {example}")
    parser.add_argument("--runs-dir", type=Path, default=runs, help="where unfinished runs are kept")
    parser.add_argument("--table", action="store_true", help="train nothing; table and curves of the finished runs")
    parser.add_argument("--train", help=argparse.SUPPRESS)  # one run, in a process of the queue
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error(f"--jobs is {arguments.jobs}; expected at least 1")
    return arguments


# ------------------------------------------------------------------------------------------------ what has come of it


@dataclass(frozen=True)
class Page:
    """The page of a benchmark: ``results/NAME.md`` with ``results/NAME.png``, of the files in ``results/NAME/``."""

    training: type[Training]
    tasks: Mapping[str, str]  # the first field of a training, and the title of its panel of curves
    kinds: Mapping[tuple[str, ...], tuple[str, str]]  # the other fields; a label and a colour
    title: str
    introduction: str
    panels: tuple[int, int] = (1, 1)  # rows and columns
    digits: int = 0
    published: Mapping[str, tuple[str, ...]] | None = None  # for each task, in the order of the kinds

    @property
    def name(self) -> str:
        return self.training.benchmark

    @property
    def fields(self) -> list[str]:
        return [item.name for item in fields(self.training) if item.name != "seed"]

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((RESULTS / self.name).glob("*.json"))]

    def of_cell(self, results: list[dict[str, Any]], task: str, kind: tuple[str, ...]) -> list[dict[str, Any]]:
        return [run for run in results if tuple(run[name] for name in self.fields) == (task, *kind)]

    def rows(self, results: list[dict[str, Any]], values: str) -> list[list[str]]:
        """A row per cell: seeds, mean over seeds with deviation and interval, and what was published."""
        head = [self.fields[0], "algorithm", "seeds", "mean ± deviation", "95 % interval"]
        rows = [head + (["published"] if self.published else [])]
        for task, (column, (kind, (label, _))) in product(self.tasks, enumerate(self.kinds.items())):
            means = [float(np.mean(run[values])) for run in self.of_cell(results, task, kind)]
            published = [self.published[task][column]] if self.published else []
            rows.append([task, label, str(len(means)), *mean_and_interval(means, self.digits), *published])
        return rows

    def remarks(self, results: list[dict[str, Any]]) -> str:
        """What follows from the tables, with a blank line behind it; by default nothing."""
        return ""

    def write(self, results: list[dict[str, Any]]) -> None:
        self.plot(results)
        (RESULTS / f"{self.name}.md").write_text(f"""# {self.title}

{self.introduction}

## Evaluation after training

{as_markdown(self.rows(results, "evaluation"))}

## Last hundred training episodes

{as_markdown(self.rows(results, "last_100_episodes"))}

{self.remarks(results)}![learning curves, the mean over seeds between the lowest and the highest]({self.name}.png)

`python -m benchmarks.{self.name}` repeats it; each file in [{self.name}/]({self.name}) holds the command of its
run. Made on: {made_on(results)}.
""")

    def plot(self, results: list[dict[str, Any]]) -> None:
        rows, columns = self.panels
        size = (4.6 * columns, 3.2 * rows)
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for axis, (task, title) in zip(axes.flat, self.tasks.items(), strict=True):
            for kind, (label, color) in self.kinds.items():
                draw_curves(axis, [run["curve"] for run in self.of_cell(results, task, kind)], label, color)
            dress(axis, title)
        # below the panels, where it hides no curve; a kind without runs in one panel may have some in another
        lines = {line.get_label(): line for axis in axes.flat for line in axis.lines}
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(self.kinds), frameon=False)
        figure.savefig(RESULTS / f"{self.name}.png", dpi=120)
        plt.close(figure)

    def main(self, description: str | None) -> tuple[int, list[dict[str, Any]]]:
        """The benchmark's program: train what has no result yet, write the page; the exit code and all results."""
        cells = list(product(self.tasks, self.kinds))
        example = "-".join((cells[-1][0], *cells[-1][1]))
        arguments = parse_arguments(description, Path("runs") / self.name, example)
        if arguments.train:
            train(self.training.named(arguments.train), arguments.runs_dir)
            return 0, []
        failures = 0
        if not arguments.table:
            # all cells with the first seed, then with the next: a queue that is stopped leaves an even table
            trainings = [self.training(seed, task, *kind) for seed, (task, kind) in product(arguments.seeds, cells)]
            waiting = [item for item in trainings if arguments.only in item.cell and not item.result.exists()]
            failures = run_queue(waiting, arguments.jobs, arguments.runs_dir, Console())
        if results := self.results():
            self.write(results)
            show(Console(), "mean return of the evaluation", self.rows(results, "evaluation"))
        return failures, results


def mean_and_interval(means: list[float], digits: int = 0) -> list[str]:
    """Two cells of a table: the mean over seeds with its deviation, and its 95 % interval."""
    if not means:
        return ["–", "–"]
    deviation = f" ± {np.std(means, ddof=1):.{digits}f}" if len(means) > 1 else ""
    _, low, high = mean_interval(means)
    interval = f"{low:.{digits}f} … {high:.{digits}f}" if len(means) > 1 else "–"
    return [f"{np.mean(means):.{digits}f}{deviation}", interval]


def difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], values: str) -> str:
    """How far the means over seeds are apart. Seeds are no pairs: each side draws other numbers from one."""
    first, second = ([float(np.mean(run[values])) for run in runs] for runs in (ours, theirs))
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return str(Interval(float(np.mean(first) - np.mean(second)), float(low), float(high)))


def difference_section(of_what: str, between: str, pairs: Mapping[str, tuple[list[Any], list[Any]]]) -> str:
    """A section of a page: the runs of two sides, by the name of what both were trained on."""
    rows = [[of_what, *(f"{what}, {between} [95 %]" for what in ("evaluation", "last hundred episodes"))]]
    for name, pair in pairs.items():
        if min(map(len, pair)) > 1:
            rows.append([name, *(difference(*pair, values) for values in ("evaluation", "last_100_episodes"))])
    return f"""## The difference

Of the means over seeds, with Welch's interval; one that holds 0 is no difference that so few seeds can show.

{as_markdown(rows)}

"""


def draw_curves(axis: Axes, curves: list[Any], label: str, color: str) -> None:
    """The mean over seeds between the lowest and the highest; nothing for no curves."""
    if not curves:
        return
    grid = np.linspace(max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves), 200)
    values = np.array([np.interp(grid, *np.transpose(curve)) for curve in curves])
    axis.plot(grid / 1e6, values.mean(axis=0), color=color, label=label)
    axis.fill_between(grid / 1e6, values.min(axis=0), values.max(axis=0), color=color, alpha=0.15, linewidth=0)


def dress(axis: Axes, title: str) -> None:
    axis.set(title=title, xlabel="million steps", ylabel="return of the latest 100 episodes")
    axis.spines[["top", "right"]].set_visible(False)
    if not axis.lines:
        axis.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axis.text(0.5, 0.5, "no finished run yet", ha="center", va="center", transform=axis.transAxes, color="gray")


def made_on(results: list[dict[str, Any]]) -> str:
    """The machines and versions of all runs."""
    machines = sorted({f"{run['machine']['processor']}, {run['machine']['cores']} cores" for run in results})
    versions = sorted(
        {f"PyTorch {run['machine']['torch']}, gymnasium {run['machine']['gymnasium']}" for run in results}
    )
    return f"{'; '.join(machines)}; {'; '.join(versions)}"
