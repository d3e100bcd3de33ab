"""Jobs that overlap: a requeued one finds its predecessor alive, dying or dead, and the run is never damaged."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.overlapping_writers import Writers
from proximo.files.owner import _start_of
from proximo.training.checkpoints import CheckpointFolder

CASE = "ppo in process"
KIND = "overlapping writers"


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    started = Writers()
    yield started
    started.close()


@pytest.fixture(scope="module")
def expected(writers: Writers, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], float]:
    """What a training that is alone gives, and how long it takes."""
    folder, begun = tmp_path_factory.mktemp("alone"), time.monotonic()
    assert writers.outcome(writers.start(CASE, folder), folder) == {"outcome": "finished"}
    return json.loads((folder / "digest.json").read_text()), time.monotonic() - begun


def check_record(folder: Path, killed: set[str]) -> None:
    """Whoever enters finds that all who entered before have left or are dead."""
    inside: set[str] = set()
    for line in (folder / "record.txt").read_text().splitlines():
        what, pid = line.split()
        if what == "enter":
            assert inside <= killed, f"{pid} writes beside {inside - killed}"
            inside.add(pid)
        else:
            inside.discard(pid)


def check_overlap(
    writers: Writers, folder: Path, expected: dict[str, Any], seconds: float, chance: random.Random
) -> str:
    """Two or three trainings of one run at once; how it went."""
    folder.mkdir(parents=True)
    pids, killed = [writers.start(CASE, folder)], set()
    time.sleep(chance.uniform(0.0, seconds))
    way = chance.choice(["refused", "killed", "killed meanwhile", "taken over", "three"])
    if way == "killed":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], signal.SIGKILL)
        killed.add(str(pids[0]))
    pids.append(writers.start(CASE, folder, take_over=way in ("taken over", "three")))
    if way == "three":
        pids.append(writers.start(CASE, folder, take_over=chance.random() < 0.5))
    if way == "killed meanwhile":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], signal.SIGKILL)
        killed.add(str(pids[0]))
    outcomes = [writers.outcome(pid, folder) for pid in pids if str(pid) not in killed]
    assert {outcome["outcome"] for outcome in outcomes} <= {"finished", "refused", "lost"}, outcomes
    for outcome in outcomes:
        if outcome["outcome"] != "finished":
            assert any(f"process {pid} on " in outcome["message"] for pid in pids) or "not told its name" in str(
                outcome
            )
    while any(_start_of(int(pid)) is not None for pid in killed):
        time.sleep(0.005)  # until then they may still write
    last = writers.start(CASE, folder)  # finishes what is left
    assert writers.outcome(last, folder) == {"outcome": "finished"}
    check_record(folder, killed)
    assert json.loads((folder / "digest.json").read_text()) == expected
    assert CheckpointFolder(folder / "checkpoints").newest().name == "model_512_steps.zip"
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.glob("*.lock"))
    return way


def check_overlaps(
    writers: Writers, root: Path, expected: tuple[dict[str, Any], float], tries: int, seed: int, tally: Any
) -> set[str]:
    chance, ways = random.Random(seed), set()
    for trial in range(tries):
        with tally.case(KIND):
            ways.add(check_overlap(writers, root / str(trial), expected[0], expected[1], chance))
        shutil.rmtree(root / str(trial))
    return ways


def test_overlapping_trainings_do_not_damage_a_run(writers, expected, tmp_path, tally):
    assert len(check_overlaps(writers, tmp_path, expected, 3, 4, tally)) >= 2


@pytest.mark.slow
def test_200_overlapping_trainings(writers, expected, tmp_path, tally):
    assert len(check_overlaps(writers, tmp_path, expected, 200, 2, tally)) == 5
