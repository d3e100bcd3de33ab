"""Freed memory is kept while training, and given back after it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from proximo.training import allocator as freed_memory
from proximo.training.allocator import retain_freed_memory

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")

# pages that the system hands out while the same large block is allocated, filled and freed again and again
PROGRAM = """
import resource
from proximo.training.allocator import retain_freed_memory

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        [b"x" * 40_000_000 for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

with retain_freed_memory():
    new_pages()
    print(new_pages(), end=" ")
    during = resident()
print(new_pages(), during - resident())
"""


def run(**environment: str) -> Iterator[int]:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return map(int, finished.stdout.split())


def test_memory_is_reused_inside_and_given_back_outside() -> None:
    inside, outside, given_back = run()
    assert inside < 1_000 < 100_000 < outside
    assert given_back > 60_000  # kB


def test_settings_of_the_user_are_left_alone() -> None:
    inside, outside, _ = run(MALLOC_ARENA_MAX="2")
    assert inside > 100_000
    assert outside > 100_000


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    freed_memory._glibc.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    try:
        assert freed_memory._glibc() is None
        with retain_freed_memory():
            pass
    finally:
        freed_memory._glibc.cache_clear()
