"""Measure trainings beside each other: each must be as fast as one alone on its core, but for 15 %.

python -m benchmarks.side_by_side            # about three minutes; writes results/side_by_side.{json,md}

Both run as a user starts them, without a word about threads; the one alone is bound to one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show

NEEDED = 0.85  # of the speed alone
STEPS = {"RecurrentPPO, LSTM of 64": 12_288, "PPO, backend torch": 24_576}
SECONDS_TO_START = 20.0  # after which all begin together


def make_model(name: str) -> Any:
    from proximo import PPO, RecurrentPPO
    from proximo.envs import make_vec_env

    env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    if name.startswith("Recurrent"):
        arguments = {"n_steps": 128, "batch_size": 128, "policy_kwargs": {"lstm_hidden_size": 64}}
        return RecurrentPPO("MlpLstmPolicy", env, seed=0, device="cpu", **arguments)
    return PPO("MlpPolicy", env, n_steps=512, batch_size=64, seed=0, device="cpu", backend="torch")


def be_worker(name: str, begin: float, core: int | None, out: Path) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    model = make_model(name)
    model.learn(1)
    time.sleep(max(0.0, begin - time.time()))
    start = time.perf_counter()
    model.learn(STEPS[name])
    out.write_text(json.dumps({"speed": model.num_timesteps / (time.perf_counter() - start)}))


def measure(name: str, cores: list[int | None]) -> list[float]:
    """The speeds of trainings that begin together, each bound to a core or to none."""
    variables = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        begin = str(time.time() + SECONDS_TO_START)
        outs = [Path(folder) / f"{index}.json" for index in range(len(cores))]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.side_by_side", "--worker", name, "--begin", begin]
                + ["--out", str(out), *([] if core is None else ["--core", str(core)])],
                env=variables,
            )
            for core, out in zip(cores, outs, strict=True)
        ]
        if any(process.wait() for process in processes):
            raise RuntimeError(f"a training of {name} failed")
        return [json.loads(out.read_text())["speed"] for out in outs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", choices=list(STEPS))
    parser.add_argument("--begin", type=float)
    parser.add_argument("--core", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--turns", type=int, default=2, help="of one alone and two at once, in alternation")
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    if words.worker:
        be_worker(words.worker, words.begin, words.core, words.out)
        return
    first = min(os.sched_getaffinity(0))
    rows = [["two trainings at once", "one alone on its core", "each of two", "slower one's share", "needed"]]
    results: dict[str, Any] = {}
    for name in STEPS:
        alone, both = [], []
        for _ in range(words.turns):
            alone += measure(name, [first])
            both.append(measure(name, [None, None]))
        best = max(alone)
        slower = max(min(speeds) for speeds in both)
        results[name] = {"alone": alone, "both": both, "share": slower / best, "needed": NEEDED}
        shown = ", ".join(f"{speed:,.0f}" for speed in max(both, key=min))
        rows.append([name, f"{best:,.0f}", shown, f"{slower / best:.0%}", f"≥ {NEEDED:.0%}"])
    show(Console(), "steps per second of trainings beside each other", rows)
    machine = describe_machine()
    words.results.mkdir(parents=True, exist_ok=True)
    (words.results / "side_by_side.json").write_text(
        json.dumps({"machine": machine, "works": results}, indent=2) + "\n"
    )
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (words.results / "side_by_side.md").write_text(f"""# Trainings beside each other

Steps per second in `learn()` on CartPole-v1 with 4 environments, best of {words.turns} turns: one training bound to one
core, and two at once on all cores, as they start, without a word about threads.

{as_markdown(rows)}

Measured with `python -m benchmarks.side_by_side` on: {described}.
""")


if __name__ == "__main__":
    main()
