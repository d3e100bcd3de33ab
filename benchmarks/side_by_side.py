"""Measure trainings beside each other: each must be as fast as one alone on its core, but for 15 %.

python -m benchmarks.side_by_side            # about two minutes; writes results/side_by_side.{json,md}

Both run as a user starts them, without a word about threads; the one alone is bound to one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show

NEEDED = 0.85  # of the speed alone
STEPS = {"RecurrentPPO, LSTM of 64": 12_288, "PPO, backend torch": 24_576}
READY = "ready"  # a training says so, and begins with the next line that it reads


def make_model(name: str) -> Any:
    from proximo import PPO, RecurrentPPO
    from proximo.envs import make_vec_env

    env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    if name.startswith("Recurrent"):
        arguments = {"n_steps": 128, "batch_size": 128, "policy_kwargs": {"lstm_hidden_size": 64}}
        return RecurrentPPO("MlpLstmPolicy", env, seed=0, device="cpu", **arguments)
    return PPO("MlpPolicy", env, n_steps=512, batch_size=64, seed=0, device="cpu", backend="torch")


def be_worker(name: str) -> None:
    model = make_model(name)
    model.learn(1)
    print(READY, flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    model.learn(STEPS[name])
    print(model.num_timesteps / (time.perf_counter() - start), flush=True)


def measure(name: str, cores: list[int | None]) -> list[float]:
    """The speeds of trainings that begin together, each bound to a core or to none."""
    variables = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--worker", name]
    trainings = [
        subprocess.Popen(
            command,
            env=variables,
            preexec_fn=None if core is None else partial(os.sched_setaffinity, 0, {core}),  # before PyTorch counts them
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for core in cores
    ]
    try:
        for training in trainings:
            if (said := training.stdout.readline().strip()) != READY:
                raise RuntimeError(f"a training of {name} failed before it began: {said!r}")
        for training in trainings:
            training.stdin.write("begin\n")
            training.stdin.flush()
        return [float(training.stdout.readline()) for training in trainings]
    finally:
        for training in trainings:
            training.kill()
            training.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", choices=list(STEPS))
    parser.add_argument("--turns", type=int, default=2, help="of one alone and two at once, in alternation")
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    if words.worker:
        be_worker(words.worker)
        return
    console = Console()
    first = min(os.sched_getaffinity(0))
    rows = [["two trainings at once", "one alone on its core", "each of two", "slower one's share", "needed"]]
    results: dict[str, Any] = {}
    for name in STEPS:
        alone, both = [], []
        for turn in range(words.turns):
            alone += measure(name, [first])
            both.append(measure(name, [None, None]))
            said = f"{alone[-1]:,.0f} steps/s alone, {both[-1][0]:,.0f} and {both[-1][1]:,.0f} at once"
            console.print(f"{name}, turn {turn + 1} of {words.turns}: {said}", highlight=False)
        best = max(alone)
        slower = max(min(speeds) for speeds in both)
        results[name] = {"alone": alone, "both": both, "share": slower / best, "needed": NEEDED}
        shown = ", ".join(f"{speed:,.0f}" for speed in max(both, key=min))
        rows.append([name, f"{best:,.0f}", shown, f"{slower / best:.0%}", f"≥ {NEEDED:.0%}"])
    show(console, "steps per second of trainings beside each other", rows)
    machine = describe_machine()
    words.results.mkdir(parents=True, exist_ok=True)
    (words.results / "side_by_side.json").write_text(
        json.dumps({"machine": machine, "works": results}, indent=2) + "\n"
    )
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (words.results / "side_by_side.md").write_text(f"""# Trainings beside each other

Steps per second in `learn()` on CartPole-v1 with 4 environments, best of {words.turns} turns: one training bound to one
core, and two at once on all cores, as they start, without a word about threads.
"needed" is what this project asks of itself.

{as_markdown(rows)}

Measured with `python -m benchmarks.side_by_side` on: {described}.
""")


if __name__ == "__main__":
    main()
