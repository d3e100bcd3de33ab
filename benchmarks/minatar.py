"""PPG against PPO on MinAtar, and write ``results/minatar.{md,png}``.

Three games, both algorithms, two million steps per seed, with the presets of the zoo and the small network of MinAtar's
paper. A finished run is one file in ``results/minatar/``; runs that have one are left out, and an interrupted run goes
on from its latest checkpoint, so the queue can be stopped at any time.

    python -m benchmarks.minatar                       # seeds 1, 2 and 3 of all cells
    python -m benchmarks.minatar --only Breakout-ppg   # cells whose name contains a text
    python -m benchmarks.minatar --table               # only table and curves, of the runs that there are
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
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
FINISHED = RESULTS / "minatar"
GAMES = ("Breakout", "Asterix", "SpaceInvaders")
ALGORITHMS = {"ppo": "tab:blue", "ppg": "tab:orange"}


@dataclass(frozen=True)
class GameTraining(Training):
    """One game and algorithm with one seed."""

    module: ClassVar[str] = "benchmarks.minatar"
    finished: ClassVar[Path] = FINISHED
    steps: ClassVar[int] = STEPS
    game: str
    algo: str

    @property
    def cell(self) -> str:
        return f"{self.game}-{self.algo}"

    def facts(self) -> dict[str, Any]:
        return {"game": self.game, "algo": self.algo}

    def arguments(self, runs: Path) -> list[str]:
        options = {
            "--algo": self.algo,
            "--seed": self.seed,
            "--steps": STEPS,
            "--checkpoint-every": CHECKPOINT_EVERY,
            "--eval-episodes": 0,  # they are played after the training, and written down
            "--runs-dir": runs / self.name,
        }
        return ["train", f"MinAtar/{self.game}-v1", *(str(word) for pair in options.items() for word in pair)]


def summary(results: list[dict[str, Any]], values: str) -> list[list[str]]:
    """A row per cell: seeds, mean over seeds with deviation and interval."""
    rows = [["game", "algorithm", "seeds", "mean ± deviation", "95 % interval"]]
    for game, algo in product(GAMES, ALGORITHMS):
        means = [float(np.mean(run[values])) for run in results if (run["game"], run["algo"]) == (game, algo)]
        rows.append([game, algo.upper(), str(len(means)), *mean_and_interval(means, digits=1)])
    return rows


def plot(results: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(1, len(GAMES), figsize=(11, 3.6), layout="constrained")
    for axis, game in zip(axes, GAMES, strict=True):
        for algo, color in ALGORITHMS.items():
            curves = [run["curve"] for run in results if (run["game"], run["algo"]) == (game, algo)]
            draw_curves(axis, curves, algo.upper(), color)
        dress(axis, game)
    figure.savefig(RESULTS / "minatar.png", dpi=120)
    plt.close(figure)


def write_table(results: list[dict[str, Any]]) -> None:
    plot(results)
    (RESULTS / "minatar.md").write_text(f"""# PPG against PPO on MinAtar

Two million steps, the presets `minatar` of both algorithms, which no search has gone into. First the mean return of
{EVALUATION_EPISODES} deterministic episodes after the training, then that of the last hundred training episodes; each
is the mean over seeds, with its standard deviation and 95 % interval (Student's t).

## Evaluation after training

{as_markdown(summary(results, "evaluation"))}

## Last hundred training episodes

{as_markdown(summary(results, "last_100_episodes"))}

![learning curves, the mean over seeds between the lowest and the highest](minatar.png)

`python -m benchmarks.minatar` repeats it; each file in [minatar/](minatar) holds the `proximo train` command of its
run. Made on: {made_on(results)}.
""")


def main() -> int:
    arguments = parse_arguments(__doc__, Path("runs/minatar"), "Breakout-ppg")
    if arguments.train:
        game, algo, seed = arguments.train.split("-")
        return train(GameTraining(int(seed), game, algo), arguments.runs_dir)
    failures = 0
    if not arguments.table:
        # all cells with the first seed, then with the next: a queue that is stopped leaves an even table
        trainings: list[Training] = [
            GameTraining(seed, game, algo) for seed, game, algo in product(arguments.seeds, GAMES, ALGORITHMS)
        ]
        waiting = [item for item in trainings if arguments.only in item.cell and not item.result.exists()]
        failures = run_queue(waiting, arguments.jobs, arguments.runs_dir, Console())
    if results := finished_runs(FINISHED):
        write_table(results)
        show(Console(), "mean return of the evaluation", summary(results, "evaluation"))
    return failures


if __name__ == "__main__":
    sys.exit(main())
