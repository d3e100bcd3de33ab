"""How long PPG and PPO take to reach Acrobot's goal for the first time, and write it into ``results/ppg_learning.md``.

Until then every reward is -1, whatever the agent does. Each training ends with its first goal, at the latest after the
steps of ``benchmarks.ppg_learning``, whose settings it has.

    python -m benchmarks.first_goal                 # 60 seeds of each variant, about ten minutes on one core
    python -m benchmarks.first_goal --seeds 10      # fewer
    python -m benchmarks.first_goal --only rollout  # variants whose name contains a word; the others stay as stored
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from benchmarks.machine import describe_machine
from benchmarks.ppg_learning import EXPLORED, FIRST_GOAL, POTENTIAL, TASKS, Task, first_goal_rows, write_page
from benchmarks.run import show
from proximo import PPG, PPO
from proximo.functional.advantages import estimate_advantages
from proximo.training.callbacks import BaseCallback

Floats = NDArray[np.float32]
FIRST, LATER, ALL = range(1, 9), range(9, 1000), range(1, 1000)  # rollouts; eight are a phase of PPG
LOOKED_AT = range(5, 9)  # rollouts whose advantages are looked at, in runs that have no goal yet


@dataclass(frozen=True)
class Variant:
    """An algorithm with one thing changed."""

    name: str
    algorithm: type[PPO] = PPG
    normalized_rewards: bool = False
    value_head: float = 1.0  # the weights of the value's last layer are multiplied by it
    settings: dict[str, Any] = field(default_factory=dict)
    # rollouts whose advantages are estimated from other values; the value learns the same returns as before
    without_states: range = range(0)  # the mean over the rollout is the value of every state
    with_potential: range = range(0)  # the values of a random network, which is never trained, are added

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
    Variant("large layer, without states in rollouts 1 to 8", value_head=10.0, without_states=FIRST),
    Variant("large layer, without states from rollout 9", value_head=10.0, without_states=LATER),
    Variant("large layer, without states in all rollouts", value_head=10.0, without_states=ALL),
    Variant(POTENTIAL, with_potential=FIRST),
)


class UntilFirstGoal(BaseCallback):
    """Ends the training with the first episode that is not -500; until then it changes advantages as a variant says."""

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.variant = variant
        self.first: int | None = None
        self.rollouts = 0
        self.known_from_states: list[float] = []

    def _on_training_start(self) -> None:
        self.potential = random_network(self.model.policy, self.model.seed)

    def _on_step(self) -> bool:
        return self.first is None

    def _on_rollout_end(self) -> None:
        self.rollouts += 1
        if any(episode["r"] > -500 for episode in self.model.ep_info_buffer or ()):
            self.first = self.num_timesteps
            return
        buffer, rollout = self.model.rollout_buffer, self.model.rollout_buffer.rollout
        arrays = [rollout.values, rollout.bootstrap_values, rollout.last_values]  # [time, env] twice, [env]
        if self.rollouts in self.variant.without_states:
            self._estimate(*(np.full_like(array, rollout.values.mean()) for array in arrays))
        if self.rollouts in self.variant.with_potential:
            added = self.potential(rollout.observations)
            # the final observation of an episode is not kept: the one before it
            additions = [added, rollout.truncated * added, self.potential(self.model._last_obs)]
            self._estimate(*(array + addition for array, addition in zip(arrays, additions, strict=True)))
        if self.rollouts in LOOKED_AT:
            self.known_from_states.append(share_of_states(buffer.advantages))

    def _estimate(self, values: Floats, bootstrap_values: Floats, last_values: Floats) -> None:
        buffer, rollout = self.model.rollout_buffer, self.model.rollout_buffer.rollout
        ends, discounts = (rollout.terminated, rollout.truncated), (buffer.gamma, buffer.gae_lambda)
        estimated = estimate_advantages(rollout.rewards, values, *ends, bootstrap_values, last_values, *discounts)
        buffer.advantages = estimated[0]


def random_network(policy: Any, seed: int) -> Callable[[Floats], Floats]:
    """The values of a network like the policy's with PPO's size of the last layer, drawn apart from it."""
    body, head = copy.deepcopy((policy.mlp_extractor, policy.value_net))
    random = torch.Generator().manual_seed(10_000 + seed)
    for module, gain in ((body, 2**0.5), (head, 1.0)):
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, gain, generator=random)

    def values(observations: Floats) -> Floats:
        with torch.no_grad():
            found: Floats = head(body.forward_critic(torch.as_tensor(observations))).squeeze(-1).numpy()
        return found

    return values


def share_of_states(advantages: Floats) -> float:
    """Which share of the variance of advantages [time, env] is not known from the time alone."""
    return float(1 - advantages.mean(axis=1).var() / advantages.var())


def train(variant: Variant, seed: int) -> tuple[int | None, list[float]]:
    """Steps until the first goal, and the share of states in the rollouts that were looked at."""
    task = variant.task
    env = task.make(seed)
    own = task.ppg if variant.algorithm is PPG else task.ppo
    settings = {**task.common, **own, **variant.settings}
    model = variant.algorithm(task.policy, env, seed=seed, device="cpu", **settings)
    with torch.no_grad():
        model.policy.value_net.weight.mul_(variant.value_head)
    until = UntilFirstGoal(variant)
    model.learn(task.steps, callback=until)
    env.close()
    return until.first, until.known_from_states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, help="seeds of each variant (default: 60)")
    parser.add_argument("--only", default="", help="only variants whose name contains this; the others stay as stored")
    arguments = parser.parse_args()
    before = json.loads(FIRST_GOAL.read_text())["variants"] if arguments.only and FIRST_GOAL.exists() else []
    stored = {run["variant"]: run for run in before}
    for variant in (variant for variant in VARIANTS if arguments.only in variant.name):
        found = [train(variant, seed) for seed in range(1, arguments.seeds + 1)]
        shares = [share for _, looked in found[:EXPLORED] for share in looked]
        stored[variant.name] = {
            "variant": variant.name,
            "first_goals": [first for first, _ in found],
            "known_from_states": round(float(np.median(shares)), 4) if shares else None,
        }
        runs = [stored[known.name] for known in VARIANTS if known.name in stored]
        FIRST_GOAL.write_text(json.dumps({"machine": describe_machine(), "variants": runs}) + "\n")
    write_page()
    show(Console(), "steps until the first goal", first_goal_rows(runs))


if __name__ == "__main__":
    main()
