"""Learning curves of the algorithms that no other benchmark trains: TRPO, DAAC, RecurrentPPO, MaskablePPO, beside PPO.

``python -m benchmarks.family``, or with the names of some: ``trpo_and_daac``, ``maskable_ppo``, ``recurrent_ppo``

Presets on CartPole-v1, once whole and once without velocities; 40 actions of which masks forbid 30. Prints the mean
return of the latest 100 training episodes at the end, for each seed, and draws a picture of that name each into
``benchmarks/results``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import proximo
from proximo import make_vec_env
from proximo.agents.on_policy import OnPolicyAlgorithm
from proximo.envs import VecEnv
from proximo.envs.testing.environments import InvalidActionEnvDiscrete
from proximo.training.callbacks import BaseCallback
from proximo.zoo import load_preset, make_preset_env

RESULTS = Path(__file__).parent / "results"
Curve = list[tuple[int, float]]


class Returns(BaseCallback):
    """The mean return of the latest 100 episodes after each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve = []

    def _on_rollout_end(self) -> None:
        if episodes := self.model.ep_info_buffer:
            self.curve.append((self.model.num_timesteps, float(np.mean([episode["r"] for episode in episodes]))))


def cart_pole(algo: str, seed: int, without_velocities: bool = False) -> tuple[OnPolicyAlgorithm, int]:
    """A preset's model; without velocities, every algorithm sees what RecurrentPPO's preset shows."""
    name = "CartPole-v1:no-velocity" if algo == "recurrent_ppo" else "CartPole-v1"
    preset = load_preset(algo, name)
    shown = load_preset("recurrent_ppo", "CartPole-v1:no-velocity") if without_velocities else preset
    env: VecEnv = make_preset_env(shown, "CartPole-v1", n_envs=preset.n_envs, seed=seed)
    agent = getattr(proximo, proximo.ALGORITHMS[algo])
    policy = preset.policy or "MlpPolicy"
    return agent(policy, env, seed=seed, **preset.model_arguments()), 100_000


def masked(algo: str, seed: int) -> tuple[OnPolicyAlgorithm, int]:
    env = make_vec_env(InvalidActionEnvDiscrete, n_envs=4, seed=seed, env_kwargs={"dim": 40, "n_invalid_actions": 30})
    agent = getattr(proximo, proximo.ALGORITHMS[algo])
    return agent("MlpPolicy", env, n_steps=256, seed=seed), 60_000


Make = Callable[[str, int], tuple[OnPolicyAlgorithm, int]]
COMPARISONS: dict[str, tuple[str, Make, tuple[str, ...]]] = {
    "maskable_ppo": ("40 actions, 30 of them masked", masked, ("ppo", "maskable_ppo")),
    "trpo_and_daac": ("CartPole-v1", cart_pole, ("ppo", "trpo", "daac")),
    "recurrent_ppo": (
        "CartPole-v1 without velocities",
        partial(cart_pole, without_velocities=True),
        ("ppo", "recurrent_ppo"),
    ),
}


def trained(make: Make, algo: str, seed: int) -> Curve:
    model, steps = make(algo, seed)
    returns = Returns()
    model.learn(steps, callback=returns)
    return returns.curve


def draw(axis: Any, label: str, curves: list[Curve]) -> None:
    """The mean over the seeds, and between the lowest and the highest of them."""
    steps = np.array([point for point, _ in min(curves, key=len)])
    values = np.array([np.interp(steps, *zip(*curve, strict=True)) for curve in curves])
    (line,) = axis.plot(steps, values.mean(axis=0), label=label)
    axis.fill_between(steps, values.min(axis=0), values.max(axis=0), alpha=0.2, color=line.get_color())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(COMPARISONS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.names) - COMPARISONS.keys():  # Python 3.11 cannot check a default against choices
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(COMPARISONS)}")
    for name in options.names or COMPARISONS:
        title, make, algorithms = COMPARISONS[name]
        figure = Figure(figsize=(7, 3.5), layout="constrained")
        axis = figure.subplots()
        for algo in algorithms:
            curves = [trained(make, algo, seed) for seed in range(1, options.seeds + 1)]
            ends = [curve[-1][1] for curve in curves]
            print(f"{title}, {algo}: {np.mean(ends):.1f} ({', '.join(f'{end:.1f}' for end in ends)})", flush=True)
            draw(axis, proximo.ALGORITHMS[algo], curves)
        axis.set(title=title, xlabel="steps", ylabel="mean return of 100 episodes")
        axis.legend()
        figure.savefig(RESULTS / f"{name}.png", dpi=120)


if __name__ == "__main__":
    main()
