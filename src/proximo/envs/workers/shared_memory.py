"""Arrays that several processes see: one memory-mapped file without a name, or with one for as short as possible.

Nothing can be left behind: the memory lives as long as some array over it does, in whichever process, and no longer.
On Linux the file never has a name; others open it through its maker's descriptor, in ``/proc``. Elsewhere it has one
until :meth:`SharedArrays.forget_name`.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proximo.data import Array

Layout = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]  # name → shape, dtype

_ALIGNMENT = 64  # bytes; one cache line, so that two workers never write to the same one
_RAM_FOLDER = Path("/dev/shm")


class SharedArrays:
    """The named arrays of a layout in shared memory."""

    def __init__(self, path: str, layout: Layout) -> None:
        """Open the memory that :meth:`create` made under ``path``."""
        self.path = path
        self.layout = layout
        self.forget_name: Callable[[], Any] = lambda: None  # of the maker: nobody can open it any more; arrays stay
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        self.arrays: dict[str, Array] = {}
        for name, (offset, shape, dtype) in _offsets(layout).items():
            flat = np.frombuffer(memory, dtype, count=math.prod(shape), offset=offset)
            self.arrays[name] = flat.reshape(shape)

    @classmethod
    def create(cls, layout: Layout) -> SharedArrays:
        size = sum(_padded(math.prod(shape) * dtype.itemsize) for shape, dtype in layout.values())
        file = _reserve_file(max(size, _ALIGNMENT))
        try:
            arrays = cls(file.path, layout)
        except BaseException:
            file.forget()
            raise
        arrays.forget_name = weakref.finalize(arrays, file.forget)
        return arrays


class _File(NamedTuple):
    descriptor: int | None  # kept open for others to open the file through it
    path: str

    def forget(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
        else:
            os.unlink(self.path)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _offsets(layout: Layout) -> dict[str, tuple[int, tuple[int, ...], np.dtype[Any]]]:
    places, offset = {}, 0
    for name, (shape, dtype) in layout.items():
        places[name] = (offset, shape, dtype)
        offset += _padded(math.prod(shape) * dtype.itemsize)
    return places


def _reserve_file(size: int) -> _File:
    """A file of that size, in RAM if there is room, else in the temporary folder."""
    folders = [str(_RAM_FOLDER)] if os.access(_RAM_FOLDER, os.W_OK) else []
    folders.append(tempfile.gettempdir())
    for folder in folders:
        file = _nameless_file(folder) or _named_file(folder)
        try:
            if hasattr(os, "posix_fallocate"):  # a promise: writing later cannot fail for want of room
                with open(file.path, "r+b") as opened:
                    os.posix_fallocate(opened.fileno(), 0, size)
            else:
                os.truncate(file.path, size)
        except OSError:
            file.forget()
            continue
        return file
    raise OSError(f"no room for {size / 2**20:.0f} MiB of shared memory in {folders}")


def _nameless_file(folder: str) -> _File | None:
    """None where the system or the file system has no such files."""
    if sys.platform != "linux":
        return None
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        return None
    return _File(descriptor, f"/proc/{os.getpid()}/fd/{descriptor}")


def _named_file(folder: str) -> _File:
    descriptor, path = tempfile.mkstemp(prefix=f"proximo-{os.getpid()}-", dir=folder)
    os.close(descriptor)
    return _File(None, path)
