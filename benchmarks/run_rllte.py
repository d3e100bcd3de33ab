"""Measure ``proximo.rllte`` against rllte 1.0.1 and write ``benchmarks/results/rllte.{json,md}``.

rllte needs versions of its own and gets a virtual environment of its own, built from the package index on the first
run. Both libraries run the same script with their defaults, each in a new process, in turns; rllte with one torch
thread and with all of them, with environments in worker processes (its default) and, as a row apart, in the process.

    python -m benchmarks.run_rllte                   # about ten minutes
    python -m benchmarks.run_rllte --venv FOLDER     # keep rllte's environment there
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show
from benchmarks.works import median

SCRIPT = Path(__file__).with_name("rllte_work.py")
PACKAGES = (
    "torch==2.13.0",
    "gymnasium[classic-control]==0.29.1",
    "numpy<2",
    "pandas",
    "scipy",
    "matplotlib",
    "seaborn",
    "termcolor",
    "pynvml",
    "pillow",
    "omegaconf",
    "huggingface-hub==0.14.1",
)


@dataclass(frozen=True)
class Row:
    """One comparison: an agent with its hidden layers' width, and the ratio to rllte that it must reach."""

    algorithm: str
    hidden_dim: int
    steps: int
    required_ratio: float | None
    workers: bool = True  # rllte's default; the rows without show what is left when both step in the process

    @property
    def name(self) -> str:
        width = "defaults (hidden_dim 512)" if self.hidden_dim == 512 else f"hidden_dim {self.hidden_dim}"
        return f"{self.algorithm}, CartPole-v1, 8 envs, {width}" + ("" if self.workers else ", envs in the process")


# 65,536 steps hold two auxiliary phases of PPG
ROWS = tuple(
    Row(algorithm, hidden_dim, steps, required if workers else None, workers)
    for workers in (True, False)
    for algorithm, hidden_dim, steps, required in (
        ("PPO", 512, 16_384, 2.5),
        ("PPO", 64, 32_768, 8.0),
        ("PPG", 512, 65_536, 2.0),
        ("PPG", 64, 65_536, 6.0),
    )
)


def rllte_python(folder: Path) -> Path:
    """The interpreter of rllte's own environment, made if it is not there."""
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *PACKAGES], check=True)
    subprocess.run([*install, "--no-deps", "rllte-core==1.0.1"], check=True)
    # torchvision has no CPU build for this torch; rllte wants one class of it, which PPO and PPG never use
    site_packages = next((folder / "lib").glob("python*")) / "site-packages"
    (site_packages / "torchvision").mkdir(exist_ok=True)
    (site_packages / "torchvision" / "__init__.py").write_text("")
    (site_packages / "torchvision" / "transforms.py").write_text("class ColorJitter: ...\n")
    (folder / "ready").touch()
    return python


def speed(python: Path | str, library: str, row: Row, threads: int) -> float:
    environment = {**os.environ, "THREADS": str(threads), "ASYNCHRONOUS": str(int(row.workers))}
    arguments = [library, row.algorithm, str(row.hidden_dim), str(row.steps)]
    finished = subprocess.run(
        [str(python), str(SCRIPT), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return float(finished.stdout.split("speed ")[-1])


def measure(row: Row, rllte: Path, turns: int) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    speeds: dict[str, list[float]] = {}
    for _ in range(turns):
        for threads in (1, cores):
            speeds.setdefault(f"rllte, {threads} threads", []).append(speed(rllte, "rllte", row, threads))
        speeds.setdefault("Proximo", []).append(speed(sys.executable, "proximo.rllte", row, cores))
    mine = median(speeds["Proximo"])
    best = max(median(values) for name, values in speeds.items() if name != "Proximo")
    return {
        "work": row.name,
        "turns": {name: [round(value, 1) for value in values] for name, values in speeds.items()},
        "rllte": round(best, 1),
        "proximo": round(mine, 1),
        "ratio": round(mine / best, 2),
        "required_ratio": row.required_ratio,
    }


def table(results: list[dict[str, Any]]) -> list[list[str]]:
    header = ["work", "rllte", "Proximo", "ratio", "needed"]
    return [header] + [
        [
            result["work"],
            f"{result['rllte']:,.0f}",
            f"{result['proximo']:,.0f}",
            f"{result['ratio']:.1f}",
            "" if result["required_ratio"] is None else f"≥ {result['required_ratio']:g}",
        ]
        for result in results
    ]


def write(results: list[dict[str, Any]]) -> None:
    machine = describe_machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rllte.json").write_text(json.dumps({"machine": machine, "speed": results}, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (RESULTS / "rllte.md").write_text(f"""# Speed against rllte 1.0.1

Steps per second of a whole `train()`, after a warm-up in the same process; median of turns, each in a new process.
Environments in worker processes, which is the default of `make_rllte_env`, unless the row says otherwise. rllte with
its better number of threads. Its PPG is mended so far that it runs on a CPU at all; its auxiliary phase is as
published: it computes all gradients and zeroes them before the step, so it does the work and learns nothing from it.
"needed" is what this project asks of itself.

{as_markdown(table(results))}

Measured with `python -m benchmarks.run_rllte` on: {described}.
""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(".venv-rllte"), help="rllte's virtual environment")
    parser.add_argument("--turns", type=int, default=3, help="turns of each library per row")
    arguments = parser.parse_args()
    console = Console()
    with console.status("building rllte's environment"):
        rllte = rllte_python(arguments.venv.absolute())
    results = []
    for row in ROWS:
        with console.status(row.name):
            results.append(measure(row, rllte, arguments.turns))
        console.print(f"{row.name}: {results[-1]['ratio']} times rllte", highlight=False)
    show(console, "steps per second", table(results))
    write(results)


if __name__ == "__main__":
    main()
