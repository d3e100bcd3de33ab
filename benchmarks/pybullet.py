"""Train the PyBullet table of Stable-Baselines3's PPO page and write ``results/pybullet.{md,png}``.

Sixteen cells (four robots; A2C and PPO; Gaussian noise and gSDE) of two million steps per seed, each by the same
``proximo train`` that a user would type. A finished run is one file in ``results/pybullet/``; runs that have one are
left out, and an interrupted run goes on from its latest checkpoint, so the queue can be stopped at any time.

    python -m benchmarks.pybullet                       # seeds 1, 2 and 3 of all cells: about ten hours on two cores
    python -m benchmarks.pybullet --seeds 4-6 --jobs 4  # more seeds, more at once
    python -m benchmarks.pybullet --only Hopper-ppo     # cells whose name contains a text
    python -m benchmarks.pybullet --table               # only table and curves, of the runs that there are
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
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import tomli_w
from rich.console import Console
from rich.live import Live
from rich.table import Table

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show
from proximo.cli.flags import seed_numbers
from proximo.cli.main import main as proximo
from proximo.cli.playing import evaluate_run
from proximo.cli.runs import Run
from proximo.functional.statistics import mean_interval
from proximo.training.run_folder import RunFolderError, git_revision

STEPS = 2_000_000
CHECKPOINT_EVERY = 200_000
EVALUATION_EPISODES = 20
CURVE_POINTS = 100
FINISHED = RESULTS / "pybullet"
MEASURED = Path(__file__).parents[1] / "src/proximo/zoo/measured.toml"
ROBOTS = ("HalfCheetah", "Ant", "Hopper", "Walker2D")
VARIANTS = (("a2c", "gaussian"), ("a2c", "gsde"), ("ppo", "gaussian"), ("ppo", "gsde"))
PUBLISHED = {  # mean and standard error over six seeds, as Stable-Baselines3's page has them, in the order of VARIANTS
    "HalfCheetah": ("2003 ± 54", "2032 ± 122", "1976 ± 479", "2826 ± 45"),
    "Ant": ("2286 ± 72", "2443 ± 89", "2364 ± 120", "2782 ± 76"),
    "Hopper": ("1627 ± 158", "1561 ± 220", "1567 ± 339", "2512 ± 21"),
    "Walker2D": ("577 ± 65", "839 ± 56", "1230 ± 147", "2019 ± 64"),
}


@dataclass(frozen=True)
class Training:
    """One cell of the table with one seed."""

    robot: str
    algo: str
    noise: str
    seed: int

    @property
    def cell(self) -> str:
        return f"{self.robot}-{self.algo}-{self.noise}"

    @property
    def name(self) -> str:
        return f"{self.cell}-{self.seed}"

    @property
    def result(self) -> Path:
        return FINISHED / f"{self.name}.json"

    def arguments(self, runs: Path) -> list[str]:
        """What ``proximo`` is told."""
        env = f"{self.robot}BulletEnv-v0"
        options = {
            "--algo": self.algo,
            "--preset": preset_of(self.robot, self.noise),
            "--seed": self.seed,
            "--steps": STEPS,
            "--checkpoint-mode": "boundary",
            "--checkpoint-every": CHECKPOINT_EVERY,
            "--eval-episodes": 0,  # they are played after the training, and written down
            "--runs-dir": runs / self.name,
        }
        return ["train", env, *(str(word) for pair in options.items() for word in pair)]

    def run_folder(self, runs: Path) -> Path | None:
        """The folder of an earlier attempt."""
        found = sorted((runs / self.name).glob("*/config.toml"))
        return found[-1].parent if found else None


def preset_of(robot: str, noise: str) -> str:
    return f"{robot}BulletEnv-v0:gaussian" if noise == "gaussian" else f"{robot}BulletEnv-v0"


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
        "robot": training.robot,
        "algo": training.algo,
        "noise": training.noise,
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
    FINISHED.mkdir(parents=True, exist_ok=True)
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
                        told = outcome(training) if code == 0 else f"exit code {code}, see {log_of(training, runs)}"
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
    log = log_of(training, runs)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.pybullet", "--runs-dir", str(runs), "--train", training.name]
    threads = str(max((os.cpu_count() or 1) // jobs, 1))
    with log.open("ab") as stream:  # a process group of its own: Ctrl-C is passed on once, by the queue
        return subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            start_new_session=True,
        )


def log_of(training: Training, runs: Path) -> Path:
    return runs / training.name / "log.txt"


def outcome(training: Training) -> str:
    result = json.loads(training.result.read_text())
    return f"{np.mean(result['evaluation']):.0f} in {EVALUATION_EPISODES} episodes"


def progress_table(trainings: list[Training], runs: Path) -> Table:
    table = Table("run", "steps", "return of the latest 100 episodes")
    for training in trainings:
        folder = training.run_folder(runs)
        path = None if folder is None else folder / "progress.csv"
        curve = read_curve(path) if path is not None and path.exists() else []
        steps, value = curve[-1] if curve else (0, float("nan"))
        table.add_row(training.name, f"{steps:,} of {STEPS:,}", f"{value:.0f}")
    return table


# ---------------------------------------------------------------------------------------------------------- the table


def finished_runs() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(FINISHED.glob("*.json"))]


def summary(results: list[dict[str, Any]], values: str) -> list[list[str]]:
    """A row per cell: seeds, mean over seeds with deviation and interval, and what the page has."""
    rows = [["robot", "algorithm", "seeds", "mean ± deviation", "95 % interval", "published"]]
    for robot, (column, (algo, noise)) in product(ROBOTS, enumerate(VARIANTS)):
        chosen = [run for run in results if (run["robot"], run["algo"], run["noise"]) == (robot, algo, noise)]
        title = f"{algo.upper()} {'gSDE' if noise == 'gsde' else 'Gaussian'}"
        means = [float(np.mean(run[values])) for run in chosen]
        told = ["–", "–"]
        if means:
            deviation = f" ± {np.std(means, ddof=1):.0f}" if len(means) > 1 else ""
            _, low, high = mean_interval(means)
            told = [f"{np.mean(means):.0f}{deviation}", f"{low:.0f} … {high:.0f}" if len(means) > 1 else "–"]
        rows.append([robot, title, str(len(means)), *told, PUBLISHED[robot][column]])
    return rows


def plot(results: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 6.4), layout="constrained")
    colors = {("a2c", "gaussian"): "tab:orange", ("a2c", "gsde"): "tab:red", ("ppo", "gaussian"): "tab:cyan"}
    for axis, robot in zip(axes.flat, ROBOTS, strict=True):
        for variant in VARIANTS:
            curves = [run["curve"] for run in results if (run["robot"], run["algo"], run["noise"]) == (robot, *variant)]
            if not curves:
                continue
            color = colors.get(variant, "tab:blue")
            grid = np.linspace(max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves), 200)
            values = np.array([np.interp(grid, *np.transpose(curve)) for curve in curves])
            label = f"{variant[0].upper()} {'gSDE' if variant[1] == 'gsde' else 'Gaussian'} ({len(curves)})"
            axis.plot(grid / 1e6, values.mean(axis=0), color=color, label=label)
            axis.fill_between(grid / 1e6, values.min(axis=0), values.max(axis=0), color=color, alpha=0.15, linewidth=0)
        axis.set(title=f"{robot}BulletEnv-v0", xlabel="million steps", ylabel="return of the latest 100 episodes")
        axis.spines[["top", "right"]].set_visible(False)
        if axis.lines:
            axis.legend(frameon=False, fontsize="small", title="(seeds)", title_fontsize="small")
        else:
            axis.set(xticks=[], yticks=[], xlabel="", ylabel="")
            axis.text(0.5, 0.5, "no finished run yet", ha="center", va="center", transform=axis.transAxes, color="gray")
    figure.savefig(RESULTS / "pybullet.png", dpi=120)
    plt.close(figure)


def write_table(results: list[dict[str, Any]]) -> None:
    plot(results)
    machines = sorted({f"{run['machine']['processor']}, {run['machine']['cores']} cores" for run in results})
    versions = sorted(
        {f"PyTorch {run['machine']['torch']}, gymnasium {run['machine']['gymnasium']}" for run in results}
    )
    (RESULTS / "pybullet.md").write_text(f"""# PyBullet: the results of Stable-Baselines3's page

Two million steps with the zoo's hyperparameters. First the mean return of {EVALUATION_EPISODES} deterministic episodes
after the training, then that of the last hundred training episodes, with exploration noise; each is the mean over
seeds, with its standard deviation and 95 % interval (Student's t). "published" is that page's table: mean ± standard
error over six seeds, PyBullet under the old gym.

## Evaluation after training

{as_markdown(summary(results, "evaluation"))}

## Last hundred training episodes

{as_markdown(summary(results, "last_100_episodes"))}

![learning curves, the mean over seeds between the lowest and the highest](pybullet.png)

`python -m benchmarks.pybullet` repeats it; each file in [pybullet/](pybullet) holds the `proximo train` command of its
run. Made on: {"; ".join(machines)}; {"; ".join(versions)}.
""")


def write_measured(results: list[dict[str, Any]]) -> None:
    """Tell `proximo presets` what the presets reached."""
    measured = tomllib.loads(MEASURED.read_text())
    for robot, (algo, noise) in product(ROBOTS, VARIANTS):
        chosen = [run for run in results if (run["robot"], run["algo"], run["noise"]) == (robot, algo, noise)]
        if chosen:
            mean = float(np.mean([np.mean(run["evaluation"]) for run in chosen]))
            measured[algo][preset_of(robot, noise)] = {"mean": round(mean, 1), "seeds": len(chosen)}
    header = "# What presets reached: the mean over seeds of the evaluation after the training.\n\n"
    tables = {algo: dict(sorted(rows.items())) for algo, rows in measured.items()}
    MEASURED.write_text(header + tomli_w.dumps(tables))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seed_numbers, default=[1, 2, 3], help="such as 1-3 or 4,7 (default: 1-3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trainings at the same time")
    parser.add_argument("--only", default="", help="only cells whose name contains this, such as Hopper-ppo-gsde")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/pybullet"), help="where unfinished runs are kept")
    parser.add_argument("--table", action="store_true", help="train nothing; table and curves of the finished runs")
    parser.add_argument("--train", help=argparse.SUPPRESS)  # one run, in a process of the queue
    arguments = parser.parse_args()
    if arguments.train:
        *cell, seed = arguments.train.split("-")
        return train(Training(*cell, int(seed)), arguments.runs_dir)
    failures = 0
    if not arguments.table:
        # all cells with the first seed, then with the next: a queue that is stopped leaves an even table
        trainings = [
            Training(robot, algo, noise, seed)
            for seed, robot, (algo, noise) in product(arguments.seeds, ROBOTS, VARIANTS)
        ]
        waiting = [item for item in trainings if arguments.only in item.cell and not item.result.exists()]
        failures = run_queue(waiting, arguments.jobs, arguments.runs_dir, Console())
    if results := finished_runs():
        write_table(results)
        write_measured(results)
        show(Console(), "mean return of the evaluation", summary(results, "evaluation"))
    return failures


if __name__ == "__main__":
    sys.exit(main())
