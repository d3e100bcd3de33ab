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

import sys
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
import tomli_w
from rich.console import Console

from benchmarks.run import RESULTS, as_markdown, show
from benchmarks.training_queue import (
    EVALUATION_EPISODES,
    Training,
    draw_curves,
    dress,
    finished_runs,
    made_on,
    mean_and_interval,
    parse_arguments,
    run_queue,
    train,
)

STEPS = 2_000_000
CHECKPOINT_EVERY = 200_000
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
class RobotTraining(Training):
    """One robot, algorithm and noise with one seed."""

    module: ClassVar[str] = "benchmarks.pybullet"
    finished: ClassVar[Path] = FINISHED
    steps: ClassVar[int] = STEPS
    robot: str
    algo: str
    noise: str

    @property
    def cell(self) -> str:
        return f"{self.robot}-{self.algo}-{self.noise}"

    def facts(self) -> dict[str, Any]:
        return {"robot": self.robot, "algo": self.algo, "noise": self.noise}

    def arguments(self, runs: Path) -> list[str]:
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


def preset_of(robot: str, noise: str) -> str:
    return f"{robot}BulletEnv-v0:gaussian" if noise == "gaussian" else f"{robot}BulletEnv-v0"


def summary(results: list[dict[str, Any]], values: str) -> list[list[str]]:
    """A row per cell: seeds, mean over seeds with deviation and interval, and what the page has."""
    rows = [["robot", "algorithm", "seeds", "mean ± deviation", "95 % interval", "published"]]
    for robot, (column, (algo, noise)) in product(ROBOTS, enumerate(VARIANTS)):
        chosen = [run for run in results if (run["robot"], run["algo"], run["noise"]) == (robot, algo, noise)]
        title = f"{algo.upper()} {'gSDE' if noise == 'gsde' else 'Gaussian'}"
        means = [float(np.mean(run[values])) for run in chosen]
        rows.append([robot, title, str(len(means)), *mean_and_interval(means), PUBLISHED[robot][column]])
    return rows


def plot(results: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 6.4), layout="constrained")
    colors = {("a2c", "gaussian"): "tab:orange", ("a2c", "gsde"): "tab:red", ("ppo", "gaussian"): "tab:cyan"}
    for axis, robot in zip(axes.flat, ROBOTS, strict=True):
        for variant in VARIANTS:
            curves = [run["curve"] for run in results if (run["robot"], run["algo"], run["noise"]) == (robot, *variant)]
            label = f"{variant[0].upper()} {'gSDE' if variant[1] == 'gsde' else 'Gaussian'}"
            draw_curves(axis, curves, label, colors.get(variant, "tab:blue"))
        dress(axis, f"{robot}BulletEnv-v0")
    figure.savefig(RESULTS / "pybullet.png", dpi=120)
    plt.close(figure)


def write_table(results: list[dict[str, Any]]) -> None:
    plot(results)
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
run. Made on: {made_on(results)}.
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
    arguments = parse_arguments(__doc__, Path("runs/pybullet"), "Hopper-ppo-gsde")
    if arguments.train:
        *cell, seed = arguments.train.split("-")
        return train(RobotTraining(int(seed), *cell), arguments.runs_dir)
    failures = 0
    if not arguments.table:
        # all cells with the first seed, then with the next: a queue that is stopped leaves an even table
        trainings = [
            RobotTraining(seed, robot, algo, noise)
            for seed, robot, (algo, noise) in product(arguments.seeds, ROBOTS, VARIANTS)
        ]
        waiting = [item for item in trainings if arguments.only in item.cell and not item.result.exists()]
        failures = run_queue(waiting, arguments.jobs, arguments.runs_dir, Console())
    if results := finished_runs(FINISHED):
        write_table(results)
        write_measured(results)
        show(Console(), "mean return of the evaluation", summary(results, "evaluation"))
    return failures


if __name__ == "__main__":
    sys.exit(main())
