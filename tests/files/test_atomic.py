"""What a power cut leaves of a file that was written: all of it, and the folders on the way to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proximo.files.atomic import replacing


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to name what is synced")
def test_every_folder_that_was_made_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    target = tmp_path / "a" / "b" / "c" / "file"
    with replacing(target) as stream:
        stream.write(b"x")
    folders = [path for path in synced if path.is_dir()]
    assert folders == [tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    synced.clear()
    with replacing(target) as stream:
        stream.write(b"y")
    assert [path for path in synced if path.is_dir()] == [target.parent]
