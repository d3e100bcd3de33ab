"""Runs the tests of ``on_device`` in processes of their own, for they register a device with PyTorch.

To run them by hand: ``PROXIMO_SIM_DEVICE=1 python -m pytest tests/devices/on_device``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = sorted((Path(__file__).parent / "on_device").glob("test_*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_on_a_simulated_device(module: Path) -> None:
    environment = os.environ | {"PROXIMO_SIM_DEVICE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(module)]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)


def test_there_are_tests_to_run() -> None:
    assert len(MODULES) >= 4
