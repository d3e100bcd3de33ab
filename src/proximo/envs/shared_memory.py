"""Arrays that several processes see: one memory-mapped file whose name is gone as soon as all have opened it.

Nothing can be left behind: the memory lives as long as some array over it does, in whichever process, and no longer.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

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
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        self.arrays: dict[str, Array] = {}
        for name, (offset, shape, dtype) in _offsets(layout).items():
            flat = np.frombuffer(memory, dtype, count=math.prod(shape), offset=offset)
            self.arrays[name] = flat.reshape(shape)

    @classmethod
    def create(cls, layout: Layout) -> SharedArrays:
        size = sum(_padded(math.prod(shape) * dtype.itemsize) for shape, dtype in layout.values())
        path = _reserve_file(max(size, _ALIGNMENT))
        try:
            return cls(path, layout)
        except BaseException:
            os.unlink(path)
            raise

    def forget_name(self) -> None:
        """Remove the file's name; the memory stays with those who opened it."""
        if os.path.exists(self.path):
            os.unlink(self.path)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _offsets(layout: Layout) -> dict[str, tuple[int, tuple[int, ...], np.dtype[Any]]]:
    places, offset = {}, 0
    for name, (shape, dtype) in layout.items():
        places[name] = (offset, shape, dtype)
        offset += _padded(math.prod(shape) * dtype.itemsize)
    return places


def _reserve_file(size: int) -> str:
    """A file of that size, in RAM if there is room, else in the temporary folder."""
    folders = [str(_RAM_FOLDER)] if os.access(_RAM_FOLDER, os.W_OK) else []
    for folder in [*folders, tempfile.gettempdir()]:
        descriptor, path = tempfile.mkstemp(prefix=f"proximo-{os.getpid()}-", dir=folder)
        try:
            if hasattr(os, "posix_fallocate"):  # a promise: writing later cannot fail for want of room
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.truncate(descriptor, size)
        except OSError:
            os.unlink(path)
            continue
        finally:
            os.close(descriptor)
        return path
    raise OSError(f"no room for {size / 2**20:.0f} MiB of shared memory in {[*folders, tempfile.gettempdir()]}")
