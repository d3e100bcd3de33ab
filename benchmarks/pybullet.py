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

import numpy as np
import tomli_w

from benchmarks.training_queue import EVALUATION_EPISODES, Page, Training
from proximo.functional.statistics import mean_interval

MEASURED = Path(__file__).parents[1] / "src/proximo/zoo/measured.toml"
ROBOTS = ("HalfCheetah", "Ant", "Hopper", "Walker2D")
VARIANTS = {
    ("a2c", "gaussian"): ("A2C Gaussian", "tab:orange"),
    ("a2c", "gsde"): ("A2C gSDE", "tab:red"),
    ("ppo", "gaussian"): ("PPO Gaussian", "tab:cyan"),
    ("ppo", "gsde"): ("PPO gSDE", "tab:blue"),
}
PUBLISHED = {  # mean and standard error over six seeds, as Stable-Baselines3's page has them, in the order of VARIANTS
    "HalfCheetah": ("2003 ± 54", "2032 ± 122", "1976 ± 479", "2826 ± 45"),
    "Ant": ("2286 ± 72", "2443 ± 89", "2364 ± 120", "2782 ± 76"),
    "Hopper": ("1627 ± 158", "1561 ± 220", "1567 ± 339", "2512 ± 21"),
    "Walker2D": ("577 ± 65", "839 ± 56", "1230 ± 147", "2019 ± 64"),
}


@dataclass(frozen=True)
class RobotTraining(Training):
    """One robot, algorithm and noise with one seed."""

    benchmark: ClassVar[str] = "pybullet"
    robot: str
    algo: str
    noise: str

    def environment(self) -> str:
        return f"{self.robot}BulletEnv-v0"

    def options(self) -> dict[str, Any]:
        return {
            "--algo": self.algo,
            "--preset": preset_of(self.robot, self.noise),
            "--checkpoint-mode": "boundary",
        }


def preset_of(robot: str, noise: str) -> str:
    return f"{robot}BulletEnv-v0:gaussian" if noise == "gaussian" else f"{robot}BulletEnv-v0"


@dataclass(frozen=True)
class RobotPage(Page):
    """The page of the robots' cells, which names those below the published number."""

    def remarks(self, results: list[dict[str, Any]]) -> str:
        whole, below = 0, []
        for robot, (column, (kind, (label, _))) in product(self.tasks, enumerate(self.kinds.items())):
            means = [float(np.mean(run["evaluation"])) for run in self.of_cell(results, robot, kind)]
            if len(means) >= 3:
                whole += 1
                if mean_interval(means).high < float(PUBLISHED[robot][column].split()[0]):
                    below.append(f"{robot} {label}")
        return f"""Of the {whole} cells with three seeds or more, the 95 % interval of the evaluation lies below
the published mean in {len(below)}{": " if below else ""}{", ".join(below)}.

"""


PAGE = RobotPage(
    training=RobotTraining,
    tasks={robot: f"{robot}BulletEnv-v0" for robot in ROBOTS},
    kinds=VARIANTS,
    title="PyBullet: the results of Stable-Baselines3's page",
    introduction=f"""\
Two million steps with the zoo's hyperparameters. First the mean return of {EVALUATION_EPISODES} deterministic episodes
after the training, then that of the last hundred training episodes, with exploration noise; each is the mean over
seeds, with its standard deviation and 95 % interval (Student's t). "published" is that page's table: mean ± standard
error over six seeds, PyBullet under the old gym.""",
    panels=(2, 2),
    published=PUBLISHED,
)


def write_measured(results: list[dict[str, Any]]) -> None:
    """Tell `proximo presets` what the presets reached."""
    measured = tomllib.loads(MEASURED.read_text())
    for robot, (algo, noise) in product(ROBOTS, VARIANTS):
        if chosen := PAGE.of_cell(results, robot, (algo, noise)):
            mean = float(np.mean([np.mean(run["evaluation"]) for run in chosen]))
            measured[algo][preset_of(robot, noise)] = {"mean": round(mean, 1), "seeds": len(chosen)}
    header = "# What presets reached: the mean over seeds of the evaluation after the training.\n\n"
    tables = {algo: dict(sorted(rows.items())) for algo, rows in measured.items()}
    MEASURED.write_text(header + tomli_w.dumps(tables))


def main() -> int:
    code, results = PAGE.main(__doc__)
    if results:
        write_measured(results)
    return code


if __name__ == "__main__":
    sys.exit(main())
