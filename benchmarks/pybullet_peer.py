"""Train cells of ``benchmarks.pybullet`` with the real Stable-Baselines3, and write ``results/pybullet_peer.{md,png}``.

For cells whose mean return lies below the published one: does the library learn less, or do the task, its versions and
three seeds? Same environments, hyperparameters, seeds, number of steps and episodes of evaluation. A run that is
interrupted begins again.

    python -m benchmarks.pybullet_peer --only Hopper-a2c-gsde
    python -m benchmarks.pybullet_peer --table
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

from benchmarks import pybullet
from benchmarks.run import RESULTS
from benchmarks.training_queue import (
    EVALUATION_EPISODES,
    STEPS,
    Curve,
    Outcome,
    Page,
    cpu_seconds,
    difference_section,
    draw_curves,
    dress,
    mean_and_interval,
)
from proximo.zoo.presets import Preset, load_preset
from proximo.zoo.wrappers import wrapper_chain

ALGORITHMS = {"a2c": A2C, "ppo": PPO}


@dataclass(frozen=True)
class PeerTraining(pybullet.RobotTraining):
    """The same robot, algorithm, noise and seed, trained by Stable-Baselines3."""

    benchmark: ClassVar[str] = "pybullet_peer"

    def run(self, runs: Path) -> Outcome:
        """Train and evaluate."""
        preset = load_preset(self.algo, pybullet.preset_of(self.robot, self.noise))
        env = self.make_env(preset, preset.n_envs, self.seed)
        arguments = preset.model_arguments()
        model = ALGORITHMS[self.algo](preset.policy or "MlpPolicy", env, seed=self.seed, device="cpu", **arguments)
        recorder = CurveRecorder()
        model.learn(STEPS, callback=recorder)
        played = self.make_env(preset, min(preset.n_envs, EVALUATION_EPISODES), self.evaluation_seed)
        played.training = played.norm_reward = False
        sync_envs_normalization(env, played)
        returns, _ = evaluate_policy(model, played, EVALUATION_EPISODES, return_episode_rewards=True)
        command = f"python -m benchmarks.{self.benchmark} --train {self.name}"
        return Outcome(np.asarray(returns).tolist(), recorder.curve, command, cpu_seconds())

    def make_env(self, preset: Preset, count: int, seed: int) -> VecNormalize:
        importlib.import_module("pybullet_envs_gymnasium")
        wrapper = wrapper_chain(preset.env_wrapper)
        env = make_vec_env(self.environment(), count, seed=seed, wrapper_class=wrapper)
        return VecNormalize(env, gamma=preset.arguments["gamma"])


class CurveRecorder(BaseCallback):
    """The mean return of the latest hundred training episodes, a thousand times in a training."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        latest = self.curve[-1][0] if self.curve else 0
        due = self.num_timesteps - latest >= STEPS // 1000 or self.num_timesteps >= STEPS
        if due and (episodes := self.model.ep_info_buffer):
            self.curve.append((self.num_timesteps, round(float(np.mean([each["r"] for each in episodes])), 2)))


@dataclass(frozen=True)
class PeerPage(Page):
    """Both libraries in the cells that Stable-Baselines3 has trained."""

    def cells(self, results: list[dict[str, Any]]) -> list[tuple[str, tuple[str, ...]]]:
        return [cell for cell in product(self.tasks, self.kinds) if self.of_cell(results, *cell)]

    def rows(self, results: list[dict[str, Any]], values: str) -> list[list[str]]:
        ours = pybullet.PAGE.results()
        rows = [["robot", "algorithm", "library", "seeds", "mean ± deviation", "95 % interval", "each seed"]]
        for cell, (library, runs) in product(self.cells(results), (("Proximo", ours), ("Stable-Baselines3", results))):
            means = [float(np.mean(run[values])) for run in self.of_cell(runs, *cell)]
            each = ", ".join(f"{mean:.0f}" for mean in means)
            label = self.kinds[cell[1]][0]
            rows.append([cell[0], label, library, str(len(means)), *mean_and_interval(means), each])
        return rows

    def remarks(self, results: list[dict[str, Any]]) -> str:
        ours = pybullet.PAGE.results()
        pairs = {
            f"{cell[0]}, {self.kinds[cell[1]][0]}": (self.of_cell(ours, *cell), self.of_cell(results, *cell))
            for cell in self.cells(results)
        }
        return difference_section("cell", "Proximo − Stable-Baselines3", pairs)

    def plot(self, results: list[dict[str, Any]]) -> None:
        cells = self.cells(results)
        size = (4.6 * len(cells), 3.4)
        figure, axes = plt.subplots(1, len(cells), figsize=size, squeeze=False, layout="constrained")
        for axis, cell in zip(axes.flat, cells, strict=True):
            pairs = (("Proximo", pybullet.PAGE.results(), "tab:blue"), ("Stable-Baselines3", results, "tab:gray"))
            for library, runs, color in pairs:
                draw_curves(axis, [run["curve"] for run in self.of_cell(runs, *cell)], library, color)
            dress(axis, f"{cell[0]}, {self.kinds[cell[1]][0]}")
            axis.legend(frameon=False, fontsize="small")
        figure.savefig(RESULTS / f"{self.name}.png", dpi=120)
        plt.close(figure)


PAGE = PeerPage(
    training=PeerTraining,
    tasks=pybullet.PAGE.tasks,
    kinds=pybullet.VARIANTS,
    title="PyBullet: Proximo beside Stable-Baselines3 today",
    introduction=f"""\
Cells of [the table](pybullet.md) that lie below the published number, trained again by Stable-Baselines3 of today: same
hyperparameters, seeds, two million steps and {EVALUATION_EPISODES} deterministic episodes of evaluation. A seed draws
other numbers in each library, so that seeds are not to be compared one by one.""",
)


def main() -> int:
    return PAGE.main(__doc__)[0]


if __name__ == "__main__":
    sys.exit(main())
