"""Keep memory that was freed for the next iteration instead of giving it back to the system each time."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# numbers of glibc's malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_NEVER_GIVE_BACK = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}
# glibc raises its own thresholds up to these as large blocks are freed, but not once anybody has set one
_AS_AFTER_LARGE_BLOCKS = {_MMAP_MAX: 65_536, _MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26}


@contextmanager
def retain_freed_memory() -> Iterator[None]:
    """While this is open, memory that tensors leave behind is used again; at the end the system gets it back.

    Every update frees and allocates the same tens of megabytes of activations. glibc returns such blocks to the
    system at once, and the system clears each page before it hands it out again: a fifth of the time of a
    convolutional network's update. Other C libraries, and settings the user has made, are left alone.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    _set(libc, _NEVER_GIVE_BACK)
    try:
        yield
    finally:
        _set(libc, _AS_AFTER_LARGE_BLOCKS)
        libc.malloc_trim(0)


def _set(libc: Any, options: dict[int, int]) -> None:
    for option, value in options.items():
        libc.mallopt(option, value)


@cache
def _glibc() -> Any | None:
    set_by_user = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get(
        "GLIBC_TUNABLES", ""
    )
    if not sys.platform.startswith("linux") or set_by_user:
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
