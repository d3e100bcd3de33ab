"""Measure Proximo against Stable-Baselines3 and write ``benchmarks/results/speed.{json,md}``.

Both libraries take turns, each in a process of its own, as their users run them; each number is the median of its
turns. Stable-Baselines3 runs with one torch thread and with all of them, and the better median counts.

    python -m benchmarks.run                     # everything, about 15 minutes
    python -m benchmarks.run --only "CartPole"   # rows whose name contains a word, measured again
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import processes
from benchmarks.machine import describe_machine
from benchmarks.sides import Side
from benchmarks.works import WORKS, Work, median, raw_speed, raw_speed_on_all_cores

RESULTS = Path(__file__).parent / "results"


def measure(work: Work, turns: int) -> dict[str, Any]:
    """Speeds of one work: the peer with each thread count (and vector environment), Proximo, the raw environment."""
    cores = os.cpu_count() or 1
    ours = Side(work, ours=True, workers=work.workers)
    peers = {workers: Side(work, ours=False, workers=workers) for workers in {False, work.workers}}
    ours.turn(cores)  # compiles the kernels where nothing is cached
    speeds: dict[str, list[float]] = {}
    raw: list[float] = []
    for _ in range(turns):
        for threads, (workers, theirs) in product((1, cores), peers.items()):
            name = f"peer, {threads} threads" + (", worker processes" if workers else "")
            speeds.setdefault(name, []).append(theirs.turn(threads))
        speeds.setdefault("Proximo", []).append(ours.turn(cores))
        if work.kind == "learn":
            raw.append(raw_speed_on_all_cores(work) if work.workers else raw_speed(work))
    for side in (ours, *peers.values()):
        side.close()
    mine = median(speeds["Proximo"])
    best = max(median(values) for name, values in speeds.items() if name != "Proximo")
    result: dict[str, Any] = {
        "work": work.name,
        "peer": "sb3-contrib" if work.contrib else "stable-baselines3",
        "unit": "steps/s" if work.kind == "learn" else "samples/s",
        "turns": {name: [round(value, 1) for value in values] for name, values in speeds.items()},
        "sb3": round(best, 1),
        "proximo": round(mine, 1),
        "ratio": round(mine / best, 2),
        "required_ratio": work.required_ratio,
    }
    if raw:
        result["raw_env"] = round(median(raw), 1)
        if work.required_share_of_raw is not None:
            result["share_of_raw"] = round(mine / median(raw), 2)
            result["required_share_of_raw"] = work.required_share_of_raw
    return result


def measure_processes() -> list[dict[str, Any]]:
    """Import, memory and first run; Proximo must be at least as quick, and need at most 150 MB more."""
    rows = []
    for name, unit, function in (
        ("import", "s", processes.import_seconds),
        ("peak memory of the 25,000-step example", "MB", processes.peak_megabytes),
        ("25,000-step example, new process, empty kernel cache", "s", processes.first_run_seconds),
    ):
        values = {label: round(function(module), 2) for label, module in processes.LIBRARIES.items()}
        rows.append({"work": name, "unit": unit, "sb3": values["Stable-Baselines3"], "proximo": values["Proximo"]})
    return rows


def speed_table(results: list[dict[str, Any]]) -> list[list[str]]:
    header = ["work", "SB3", "Proximo", "ratio", "needed", "raw env", "share of raw"]
    return [header] + [
        [
            row["work"],
            f"{row['sb3']:,.0f}",
            f"{row['proximo']:,.0f}",
            f"{row['ratio']:.1f}",
            f"≥ {row['required_ratio']:g}",
            f"{row['raw_env']:,.0f}" if "raw_env" in row else "",
            f"{row['share_of_raw']:.0%} (≥ {row['required_share_of_raw']:.0%})" if "share_of_raw" in row else "",
        ]
        for row in results
    ]


def process_table(results: list[dict[str, Any]]) -> list[list[str]]:
    return [["whole process", "SB3", "Proximo"]] + [
        [row["work"], f"{row['sb3']:g} {row['unit']}", f"{row['proximo']:g} {row['unit']}"] for row in results
    ]


def as_markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def show(console: Console, title: str, rows: list[list[str]]) -> None:
    table = Table(*rows[0], title=title)
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)


def write(results: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = describe_machine()
    content = {"machine": machine, "speed": results, "processes": whole}
    (RESULTS / "speed.json").write_text(json.dumps(content, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    text = f"""# Speed against Stable-Baselines3

Steps per second end to end in `learn()` (samples per second for updates alone), median of turns taken alternately,
each library in a process of its own; Stable-Baselines3 (sb3-contrib for RecurrentPPO and MaskablePPO) with its better
thread count and vector environment. "raw env" is the environment under random actions: one on one core, and in the row
with worker processes all of them, shared out over one process per core at the same time.
"needed" is what this project asks of itself.

{as_markdown(speed_table(results))}

{as_markdown(process_table(whole))}

Measured with `make bench` on: {described}.
"""
    (RESULTS / "speed.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only rows whose name contains this; the others stay as stored")
    parser.add_argument("--turns", type=int, default=3, help="turns of each library per row")
    arguments = parser.parse_args()
    works = [work for work in WORKS if arguments.only in work.name]
    if not works:
        known = ", ".join(repr(work.name) for work in WORKS)
        parser.exit(2, f"error: no row's name contains {arguments.only!r}; the rows are {known}\n")
    warnings.filterwarnings("ignore", category=UserWarning)
    console = Console()
    results = []
    for work in works:
        with console.status(work.name):
            results.append(measure(work, arguments.turns))
        console.print(f"{work.name}: {results[-1]['ratio']} times SB3", highlight=False)
    show(console, "steps per second", speed_table(results))
    if arguments.only:
        stored = json.loads((RESULTS / "speed.json").read_text())
        measured = {row["work"]: row for row in results}
        write([measured.get(row["work"], row) for row in stored["speed"]], stored["processes"])
    else:
        whole = measure_processes()
        show(console, "whole processes", process_table(whole))
        write(results, whole)


if __name__ == "__main__":
    main()
