"""Time programs that are written for Stable-Baselines3, run unchanged: with it, and with Proximo inside.

python -m benchmarks.run_clients                 # about an hour; needs the extra "clients"
python -m benchmarks.run_clients --scale 0.01 --repeats 1 --only CartPole    # does it work?

Writes ``results/clients.{json,md}``. Each time is that of the whole command, in a new process: imports, environments,
training and saving. The sides take turns, and the quickest of the repetitions counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show

CLIENTS = Path(__file__).parents[1] / "tests" / "clients"
SIDES = {
    "real": "Stable-Baselines3",
    "algorithm": "the algorithm is Proximo's",
    "replaced": "imports replaced",
}


@dataclass(frozen=True)
class Client:
    name: str
    command: tuple[str, ...]  # {steps} is filled in
    steps: int

    def arguments(self, scale: float) -> list[str]:
        return [part.format(steps=max(1, int(self.steps * scale))) for part in self.command]


ZOO = ("rl_zoo3.train", "--algo", "ppo", "--eval-freq", "-1", "-n", "{steps}", "--seed", "1", "--env")
ROWS = (
    Client("RL Zoo, CartPole-v1", (*ZOO, "CartPole-v1"), 100_000),
    Client("RL Zoo, LunarLander-v3", (*ZOO, "LunarLander-v3"), 500_000),
    Client("highway-env's PPO example", (str(CLIENTS / "scripts" / "highway.py"), "{steps}"), 20_000),
)


def seconds(side: str, client: Client, scale: float) -> float:
    """The wall time of one run of the command."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(CLIENTS / "run_with_proximo.py"), side, *client.arguments(scale)],
            cwd=folder,
            env={**os.environ, "SDL_VIDEODRIVER": "dummy"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{client.name}, {side}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return time.perf_counter() - start


def measure(client: Client, scale: float, repeats: int) -> dict[str, Any]:
    runs: list[dict[str, float]] = []
    for _ in range(repeats):
        runs.append({side: seconds(side, client, scale) for side in SIDES})
        print(f"{client.name}: " + ", ".join(f"{side} {time:.1f} s" for side, time in runs[-1].items()), flush=True)
    best = {side: round(min(run[side] for run in runs), 2) for side in SIDES}
    return {"client": client.name, "steps": int(client.steps * scale), "seconds": best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the name of the client to measure, which writes no file")
    options = parser.parse_args()
    chosen = [client for client in ROWS if options.only in client.name]
    if not chosen:
        parser.error(f"--only is {options.only!r}; expected a part of one of {[client.name for client in ROWS]}")
    results = [measure(client, options.scale, options.repeats) for client in chosen]
    rows = [["client", "steps", *SIDES.values(), "times faster"]]
    for result in results:
        best = result["seconds"]
        ratio = " / ".join(f"{best['real'] / best[side]:.1f}" for side in ("algorithm", "replaced"))
        times = [f"{best[side]:.1f} s" for side in SIDES]
        rows.append([result["client"], f"{result['steps']:,}", *times, ratio])
    show(Console(), "clients of Stable-Baselines3, the same command", rows)
    if options.scale != 1.0 or len(chosen) < len(ROWS):
        return
    machine = describe_machine()
    (RESULTS / "clients.json").write_text(json.dumps({"machine": machine, "rows": results}, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (RESULTS / "clients.md").write_text(f"""# Clients of Stable-Baselines3

The same command on each side, as a new process: imports, environments, training and saving. Once with
Stable-Baselines3, once with everything but the algorithm from there, once with its imports answered by `proximo.sb3`.

{as_markdown(rows)}

Measured with `python -m benchmarks.run_clients --repeats {options.repeats}` on: {described}.
""")


if __name__ == "__main__":
    main()
