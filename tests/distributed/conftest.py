"""What the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a training in one process."""
    from test_launching import SHORT, TRAIN, only_run, run

    folder = tmp_path_factory.mktemp("alone")
    done = run(sys.executable, "-m", "proximo", "train", *TRAIN, *SHORT, "--runs-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return only_run(folder)
