"""Free memory, of the machine and of a container; the containers' files are written as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proximo.rollout import available_memory as module


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


def test_free_memory_is_known_here() -> None:
    free = module.available_memory()
    assert free is not None
    assert free > 2**20


def test_second_version(tmp_path: Path) -> None:
    files = {"memory.current": "700", "memory.stat": "anon 500\nfile 200\ninactive_file 150"}
    assert module.of_container(write(tmp_path, **files, **{"memory.max": "1000"})) == 450
    assert module.of_container(write(tmp_path, **files, **{"memory.max": "max"})) is None
    assert module.of_container(write(tmp_path, **files, **{"memory.max": "600"})) == 50


def test_first_version(tmp_path: Path) -> None:
    files = {
        "memory__memory.limit_in_bytes": "1000",
        "memory__memory.usage_in_bytes": "900",
        "memory__memory.stat": "cache 40\ntotal_inactive_file 30",
    }
    assert module.of_container(write(tmp_path, **files)) == 130


def test_without_a_limit_the_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.of_container(tmp_path) is None
    monkeypatch.setattr(module, "CONTROL_GROUPS", tmp_path)
    assert module.available_memory() > 2**20
    limit = {"memory.max": "2000", "memory.current": "500", "memory.stat": "inactive_file 0"}
    write(tmp_path, **limit)
    assert module.available_memory() == 1500
