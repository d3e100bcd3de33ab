"""Files that only grow, of which a checkpoint remembers a place: the length, and a hash of the last block before it.

That costs the same after a million lines as after ten. Going on from the place cuts off what was written later; a file
that is shorter, or another one, is noticed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import IO, Any

from proximo.errors import ProximoError

BLOCK = 4096  # bytes that the hash looks at


class LogPositionError(ProximoError, ValueError):
    """A log file that does not hold what had been written when a checkpoint was taken."""


def place_in(file: IO[Any]) -> dict[str, Any]:
    """Where an open file ends, all of it on the disk."""
    file.flush()
    os.fsync(file.fileno())
    length = os.fstat(file.fileno()).st_size
    return {"bytes": length, "block": _hash_before(file.name, length)}


def cut_back(file: IO[Any], place: Mapping[str, Any]) -> None:
    """Take an open file back to a place of :func:`place_in`, and write on from there."""
    file.flush()
    length, present = int(place["bytes"]), os.fstat(file.fileno()).st_size
    if present < length:
        raise _unlike(file, f"holds {present} bytes, fewer than the {length} bytes that were written")
    if "block" in place and place["block"] != _hash_before(file.name, length):
        raise _unlike(file, f"holds other text before byte {length} than was written")
    file.seek(length)
    file.truncate()


def _hash_before(name: str, length: int) -> str:
    with open(name, "rb") as stream:
        stream.seek(max(0, length - BLOCK))
        return hashlib.sha256(stream.read(min(length, BLOCK))).hexdigest()


def _unlike(file: IO[Any], how: str) -> LogPositionError:
    return LogPositionError(
        f"{file.name} {how} when the checkpoint was taken; bring the file back, or resume with a logger (or a "
        "monitor_dir) that begins new files"
    )
