"""What pages tell a reader to do is tried without network, without the user's tokens and outside of the user's home."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trackers.conftest import set_up  # which sets TRACKIO_DIR, before anything imports trackio


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(tmp_path, monkeypatch)
    if (wandb := sys.modules.get("wandb")) is not None:
        wandb.teardown()  # it writes where its first run of this process began, which another test may have chosen
