"""Environments and folders for the tests of ``proximo.rllte``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proximo.rllte.env import make_rllte_env

collect_ignore = ["scripts"]  # they run when a test runs them


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every run writes its logs below the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cartpole() -> Callable[..., Any]:
    def make(num_envs: int = 4, seed: int = 1) -> Any:
        return make_rllte_env("CartPole-v1", num_envs=num_envs, seed=seed, device="cpu", asynchronous=False)

    return make
