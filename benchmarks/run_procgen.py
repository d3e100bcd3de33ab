"""Measure PPG with IMPALA's network on Procgen against the same in plain PyTorch; writes ``results/procgen.{json,md}``.

python -m benchmarks.run_procgen             # about five minutes
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.plain_ppg import PlainPPG
from benchmarks.run import RESULTS, as_markdown, show
from benchmarks.works import median
from proximo import PPG
from proximo.envs import make_procgen_env
from proximo.learners.ppg import PPGLearner
from proximo.networks.encoders import ImpalaCNN
from proximo.rollout.collector import Collector

GAME, ENVIRONMENTS, STEPS_PER_ENV, BATCH, POLICY_EPOCHS, AUX_EPOCHS, AUX_BATCHES = "starpilot", 16, 64, 256, 4, 6, 16
STEPS = ENVIRONMENTS * STEPS_PER_ENV * POLICY_EPOCHS  # one whole phase
REQUIRED_RATIO = 1.3
PHASES = {"collect": (Collector, "collect"), "policy phase": (PPGLearner, "_policy_update")}
PHASES["auxiliary phase"] = (PPGLearner, "auxiliary_update")


def make_ours() -> Callable[[], Any]:
    env = make_procgen_env(GAME, ENVIRONMENTS, seed=1)
    model = PPG(
        "CnnPolicy",
        env,
        n_steps=STEPS_PER_ENV,
        batch_size=BATCH,
        rollouts_per_phase=POLICY_EPOCHS,
        aux_epochs=AUX_EPOCHS,
        num_aux_mini_batch=AUX_BATCHES,
        policy_kwargs={"features_extractor_class": ImpalaCNN},
        seed=1,
        device="cpu",
    )
    return lambda: model.learn(STEPS)


def make_plain() -> Callable[[], Any]:
    env = make_procgen_env(GAME, ENVIRONMENTS, seed=1)
    plain = PlainPPG(env, STEPS_PER_ENV, BATCH, POLICY_EPOCHS, AUX_EPOCHS, AUX_BATCHES)
    return lambda: plain.learn(STEPS)


def timed(owner: type, name: str, seconds: dict[str, float], phase: str) -> None:
    """Add up the time of a method."""
    original = getattr(owner, name)

    def measured(*arguments: Any, **keywords: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(*arguments, **keywords)
        finally:
            seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - start

    setattr(owner, name, measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="turns of each side")
    turns = parser.parse_args().turns
    torch.set_num_threads(os.cpu_count() or 1)
    sides = {"plain PyTorch": make_plain(), "Proximo": make_ours()}
    seconds: dict[str, float] = {}
    for phase, (owner, name) in PHASES.items():
        timed(owner, name, seconds, phase)
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            speeds[name].append(STEPS / (time.perf_counter() - start))
    report({name: median(values) for name, values in speeds.items()}, speeds, seconds)


def report(medians: dict[str, float], speeds: dict[str, list[float]], seconds: dict[str, float]) -> None:
    ratio = medians["Proximo"] / medians["plain PyTorch"]
    shares = {phase: spent / sum(seconds.values()) for phase, spent in seconds.items()}
    rows = [
        ["work", "plain PyTorch", "Proximo", "ratio", "needed", *shares],
        [
            f"PPG, IMPALA network, {GAME}, {ENVIRONMENTS} envs",
            *(f"{medians[name]:,.0f}" for name in ("plain PyTorch", "Proximo")),
            f"{ratio:.2f}",
            f"≥ {REQUIRED_RATIO}",
            *(f"{share:.0%}" for share in shares.values()),
        ],
    ]
    show(Console(), "steps per second, and shares of Proximo's time", rows)
    machine = describe_machine()
    content = {"machine": machine, "turns": speeds, "ratio": round(ratio, 2), "shares": shares}
    (RESULTS / "procgen.json").write_text(json.dumps(content, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (RESULTS / "procgen.md").write_text(f"""# PPG on Procgen: speed and shares of time

Steps per second of `learn()` over one whole phase ({POLICY_EPOCHS} rollouts of {STEPS_PER_ENV} steps, {AUX_EPOCHS}
auxiliary epochs of {AUX_BATCHES} minibatches), median of turns taken alternately in one process. "plain PyTorch" is
`benchmarks/plain_ppg.py`: the same network and batches, eager, channels first, float images, torch's default Adam.
"needed" is what this project asks of itself.

{as_markdown(rows)}

Measured with `python -m benchmarks.run_procgen` on: {described}.
""")


if __name__ == "__main__":
    main()
