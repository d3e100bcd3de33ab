"""What the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernels_are_cached(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels that a process has just compiled round otherwise than the same ones loaded from the cache.

    So every process whose bits are compared loads them: one compiles them all first, and is compared with none.
    """
    from launching import launch
    from trainings import CASES, train_all

    tasks = [(name, (8,), 1, {}) for name in CASES]
    launch(train_all, tasks, processes=1, folder=tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a training in one process."""
    from test_launching import SHORT, TRAIN, only_run, run

    folder = tmp_path_factory.mktemp("alone")
    done = run(sys.executable, "-m", "proximo", "train", *TRAIN, *SHORT, "--runs-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return only_run(folder)
