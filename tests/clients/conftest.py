"""Runs clients in processes of their own, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
collect_ignore = ["scripts", "run_with_proximo.py"]

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a module or ``scripts/<name>.py`` one ``way`` (see ``run_with_proximo.py``); gives what it printed."""

    def start(way: str, client: str, *arguments: object) -> str:
        target = str(HERE / "scripts" / client) if client.endswith(".py") else client
        quiet = {"SDL_VIDEODRIVER": "dummy", "MPLBACKEND": "Agg", "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
        done = subprocess.run(
            [sys.executable, str(HERE / "run_with_proximo.py"), way, target, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **quiet, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return done.stdout

    return start


@pytest.fixture
def proximo_model() -> Callable[[Path], bool]:
    """Whether a model file is one of Proximo's: then the client trained with it, and nothing went around it."""

    def check(path: Path) -> bool:
        from proximo.files.archive import read_archive

        return bool(read_archive(path)[0]["content"] == "model")

    return check
