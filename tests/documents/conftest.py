"""What pages tell a reader to do is tried without network, without the user's tokens and outside of the user's home."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackers.conftest import set_up  # which sets TRACKIO_DIR, before anything imports trackio


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(tmp_path, monkeypatch)
