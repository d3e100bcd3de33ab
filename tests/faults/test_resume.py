"""Trainings killed at any moment and resumed give the weights and metrics of those that were never killed."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.trainings import CASES, Starter, starter

QUICK = [  # every algorithm, in process or with workers
    "ppo with workers",
    "a2c in process",
    "trpo in process",
    "recurrent_ppo in process",
    "maskable_ppo with workers",
    "ppg in process",
]
KIND = "SIGKILL while training or saving, then resume"


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as started:
        yield started


def uninterrupted(processes: Starter, case: str, folder: Path) -> tuple[dict[str, Any], float]:
    """What a training that nobody kills gives, and how long it takes."""
    folder.mkdir(parents=True)
    started = time.monotonic()
    assert processes.run(case, folder)
    return json.loads((folder / "digest.json").read_text()), time.monotonic() - started


def killed_again_and_again(
    processes: Starter, case: str, folder: Path, kills: int, seconds: float, chance: random.Random
) -> tuple[dict[str, Any], int]:
    """Kill a training ``kills`` times at random moments, resuming it each time; its result, and the kills that hit."""
    folder.mkdir(parents=True)
    hits = 0
    for _ in range(kills):
        if processes.run(case, folder, seconds_to_live=chance.uniform(0.0, seconds)):
            break  # it was quicker
        hits += 1
    assert processes.run(case, folder)
    assert not list((folder / "checkpoints").glob("*.tmp"))
    return json.loads((folder / "digest.json").read_text()), hits


def check_kills(processes: Starter, case: str, folder: Path, tally: Any, kills: int, per_run: int, seed: int) -> None:
    expected, seconds = uninterrupted(processes, case, folder / "straight")
    chance = random.Random(seed)
    done = run = 0
    while done < kills:
        run += 1
        here = folder / f"run {run}"
        found, hits = killed_again_and_again(processes, case, here, min(per_run, kills - done), 0.8 * seconds, chance)
        with tally.case(KIND, hits):
            assert found == expected
        done += hits
        shutil.rmtree(here)


@pytest.mark.parametrize("case", QUICK)
def test_a_killed_training_resumes_exactly(case, processes, tmp_path, tally):
    check_kills(processes, case, tmp_path, tally, kills=2, per_run=2, seed=QUICK.index(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_200_kills(case, processes, tmp_path, tally):
    kills = -(-200 // len(CASES))
    check_kills(processes, case, tmp_path, tally, kills=kills, per_run=4, seed=100 + list(CASES).index(case))
