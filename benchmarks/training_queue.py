"""A queue of long trainings that can be stopped and goes on: one file per finished run, table and curves of those.

Each training is the ``proximo train`` that a user would type, in a process of its own; an interrupted one goes on from
its latest checkpoint. ``benchmarks.pybullet`` and ``benchmarks.minatar`` say what is in the queue.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.live import Live
from rich.table import Table

from benchmarks.machine import describe_machine
from proximo.cli.flags import seed_numbers
from proximo.cli.main import main as proximo
from proximo.cli.playing import evaluate_run
from proximo.cli.runs import Run
from proximo.functional.statistics import mean_interval
from proximo.training.run_folder import RunFolderError, git_revision

EVALUATION_EPISODES = 20
CURVE_POINTS = 100


@dataclass(frozen=True)
class Training:
    """One cell of a table with one seed."""

    module: ClassVar[str]  # which started it, and can be told to train it
    finished: ClassVar[Path]
    steps: ClassVar[int]
    seed: int

    @property
    @abstractmethod
    def cell(self) -> str:
        """What is trained, without the seed."""

    @abstractmethod
    def arguments(self, runs: Path) -> list[str]:
        """What ``proximo`` is told."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the result's file says of it, beside what came out."""

    @property
    def name(self) -> str:
        return f"{self.cell}-{self.seed}"

    @property
    def result(self) -> Path:
        return self.finished / f"{self.name}.json"

    def run_folder(self, runs: Path) -> Path | None:
        """The folder of an earlier attempt."""
        found = sorted((runs / self.name).glob("*/config.toml"))
        return found[-1].parent if found else None

    def log(self, runs: Path) -> Path:
        return runs / self.name / "log.txt"


# ------------------------------------------------------------------------------------------------------- one training


def train(training: Training, runs: Path) -> int:
    """Train or go on, evaluate, and write the result; returns the exit code."""
    stay_in_the_background()
    start, earlier = time.monotonic(), training.run_folder(runs)
    resumable = earlier is not None and any((earlier / "checkpoints").glob("*.zip"))
    code = proximo(["train", "--resume", str(earlier)] if resumable else training.arguments(runs))
    if code != 0:
        return code
    folder = training.run_folder(runs)
    if folder is None:
        raise RunFolderError(f"the training left no run folder in {runs / training.name}")
    evaluation = evaluate_run(Run.open(folder), EVALUATION_EPISODES, seed=training.seed + 1_000_000)
    curve = read_curve(folder / "progress.csv")
    result = {
        **training.facts(),
        "seed": training.seed,
        "steps": int(curve[-1][0]),
        "seconds": None if resumable else round(time.monotonic() - start),
        "evaluation": [round(value, 2) for value in evaluation.episode_rewards],
        "last_100_episodes": curve[-1][1],
        "curve": thinned(curve),
        "command": " ".join(["proximo", *training.arguments(Path("runs"))]),
        "machine": describe_machine(),
        **(git_revision(Path(__file__).parent) or {}),
    }
    training.finished.mkdir(parents=True, exist_ok=True)
    partial = training.result.with_suffix(".partial")
    partial.write_text(json.dumps(result) + "\n")
    os.replace(partial, training.result)
    return 0


def stay_in_the_background() -> None:
    """Let ``nice`` mean what it says: Linux shares the cores between sessions first, and each run is a session."""
    group = Path("/proc/self/autogroup")
    if os.nice(0) > 0 and group.exists():
        group.write_text(str(os.nice(0)))


def read_curve(path: Path) -> list[tuple[int, float]]:
    """Steps, and the mean return of the latest hundred training episodes then."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [
        (int(float(row["time/total_timesteps"])), round(float(row["rollout/ep_rew_mean"]), 2))
        for row in rows
        if row.get("rollout/ep_rew_mean")
    ]


def thinned(curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    chosen = np.unique(np.linspace(0, len(curve) - 1, CURVE_POINTS).round().astype(int))
    return [curve[index] for index in chosen]


# ---------------------------------------------------------------------------------------------------------- the queue


def run_queue(waiting: list[Training], jobs: int, runs: Path, console: Console) -> int:
    """Train all, ``jobs`` at a time, each in a process of its own; returns the number of failures."""
    under_way: dict[Training, subprocess.Popen[bytes]] = {}
    total, failures, finished = len(waiting), 0, 0
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
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
    command = [sys.executable, "-m", training.module, "--runs-dir", str(runs), "--train", training.name]
    threads = str(max((os.cpu_count() or 1) // jobs, 1))
    with log.open("ab") as stream:  # a process group of its own: Ctrl-C is passed on once, by the queue
        return subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            start_new_session=True,
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
        table.add_row(training.name, f"{steps:,} of {training.steps:,}", f"{value:.1f}")
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
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------ what has come of it


def finished_runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def mean_and_interval(means: list[float], digits: int = 0) -> list[str]:
    """Two cells of a table: the mean over seeds with its deviation, and its 95 % interval."""
    if not means:
        return ["–", "–"]
    deviation = f" ± {np.std(means, ddof=1):.{digits}f}" if len(means) > 1 else ""
    _, low, high = mean_interval(means)
    interval = f"{low:.{digits}f} … {high:.{digits}f}" if len(means) > 1 else "–"
    return [f"{np.mean(means):.{digits}f}{deviation}", interval]


def draw_curves(axis: Axes, curves: list[Any], label: str, color: str) -> None:
    """The mean over seeds between the lowest and the highest; nothing for no curves."""
    if not curves:
        return
    grid = np.linspace(max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves), 200)
    values = np.array([np.interp(grid, *np.transpose(curve)) for curve in curves])
    axis.plot(grid / 1e6, values.mean(axis=0), color=color, label=f"{label} ({len(curves)})")
    axis.fill_between(grid / 1e6, values.min(axis=0), values.max(axis=0), color=color, alpha=0.15, linewidth=0)


def dress(axis: Axes, title: str) -> None:
    axis.set(title=title, xlabel="million steps", ylabel="return of the latest 100 episodes")
    axis.spines[["top", "right"]].set_visible(False)
    if axis.lines:
        axis.legend(frameon=False, fontsize="small", title="(seeds)", title_fontsize="small")
    else:
        axis.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axis.text(0.5, 0.5, "no finished run yet", ha="center", va="center", transform=axis.transAxes, color="gray")


def made_on(results: list[dict[str, Any]]) -> str:
    """The machines and versions of all runs."""
    machines = sorted({f"{run['machine']['processor']}, {run['machine']['cores']} cores" for run in results})
    versions = sorted(
        {f"PyTorch {run['machine']['torch']}, gymnasium {run['machine']['gymnasium']}" for run in results}
    )
    return f"{'; '.join(machines)}; {'; '.join(versions)}"
