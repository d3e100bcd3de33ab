"""How long PPG and PPO take to reach Acrobot's goal for the first time, and write it into ``results/ppg_learning.md``.

Until then every reward is -1, whatever the agent does. Each training ends with its first goal, at the latest after the
steps of ``benchmarks.ppg_learning``, whose settings it has.

    python -m benchmarks.first_goal             # 60 seeds of each variant, about five minutes on one core
    python -m benchmarks.first_goal --seeds 10  # fewer
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.ppg_learning import FIRST_GOAL, TASKS, Task, first_goal_rows, write_page
from benchmarks.run import show
from proximo import PPG, PPO
from proximo.training.callbacks import BaseCallback

SETTLED = 8  # rollouts after which the value is looked at, in runs that go on: one phase of PPG


@dataclass(frozen=True)
class Variant:
    """An algorithm with one thing changed."""

    name: str
    algorithm: type[PPO] = PPG
    normalized_rewards: bool = False
    value_head: float = 1.0  # the weights of the value's last layer are multiplied by it
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        name = "Acrobot-v1" + (", rewards normalised" if self.normalized_rewards else "")
        return next(task for task in TASKS if task.name == name)


VARIANTS = (
    Variant("PPG"),
    Variant("PPO", PPO),
    Variant("PPG without auxiliary phases", settings={"rollouts_per_phase": 1000}),
    Variant("PPG, the value's last layer as large as PPO's", value_head=10.0),
    Variant("PPO, the value's last layer as small as PPG's", PPO, value_head=0.1),
    Variant("PPG with `normalize_returns=True`", settings={"normalize_returns": True}),
    Variant("PPG, rewards normalised", normalized_rewards=True),
)


class UntilFirstGoal(BaseCallback):
    """Ends the training with the first episode that is not -500, and looks at the value until then."""

    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None
        self.rollouts = 0
        self.settled: list[tuple[float, float, float]] = []  # deviation of values, activity, share of the place

    def _on_step(self) -> bool:
        return self.first is None

    def _on_rollout_end(self) -> None:
        self.rollouts += 1
        if any(episode["r"] > -500 for episode in self.model.ep_info_buffer or ()):
            self.first = self.num_timesteps
        elif self.rollouts > SETTLED:
            buffer = self.model.rollout_buffer
            self.settled.append((float(buffer.values.std()), self._activity(), place_share(buffer.advantages)))

    def _activity(self) -> float:
        """How far the last layer before the value is from 0, of which Tanh allows 1."""
        observations = torch.as_tensor(self.model.rollout_buffer.observations).flatten(0, 1)
        with torch.no_grad():
            return float(self.model.policy.mlp_extractor.forward_critic(observations).abs().mean())


def place_share(advantages: np.ndarray[Any, Any]) -> float:
    """Which share of the variance of advantages [time, env] is known from the time alone."""
    return float(advantages.mean(axis=1).var() / advantages.var())


def train(variant: Variant, seed: int) -> UntilFirstGoal:
    task = variant.task
    env = task.make(seed)
    own = task.ppg if variant.algorithm is PPG else task.ppo
    settings = {**task.common, **own, **variant.settings}
    model = variant.algorithm(task.policy, env, seed=seed, device="cpu", **settings)
    with torch.no_grad():
        model.policy.value_net.weight.mul_(variant.value_head)
    until = UntilFirstGoal()
    model.learn(task.steps, callback=until)
    env.close()
    return until


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, help="seeds of each variant (default: 60)")
    arguments = parser.parse_args()
    runs = []
    for variant in VARIANTS:
        found = [train(variant, seed) for seed in range(1, arguments.seeds + 1)]
        settled = [numbers for run in found for numbers in run.settled]
        medians = np.median(settled, axis=0).round(3).tolist() if settled else None
        runs.append({"variant": variant.name, "first_goals": [run.first for run in found], "settled": medians})
    FIRST_GOAL.write_text(json.dumps({"machine": describe_machine(), "variants": runs}) + "\n")
    write_page()
    show(Console(), "steps until the first goal", first_goal_rows(runs))


if __name__ == "__main__":
    main()
