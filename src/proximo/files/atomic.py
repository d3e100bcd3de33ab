"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from proximo.files.owner import Owner

_being_written: set[str] = set()  # names of this process's temporary files


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new binary file that takes the place of ``path`` when the block ends well, and vanishes when it does not.

    Written beside the target (a rename is atomic only within a file system), synced to the disk before the rename and
    the folder after it. Missing folders are made, and synced too. A symbolic link stays one: the file it points to is
    replaced.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".proximo-{Owner.this_process().name}~{secrets.token_hex(8)}.tmp")
    _being_written.add(temporary.name)
    try:
        _make_folders(target.parent)
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"cannot write {path}: {reason}; {_advice(error)}; no partial file is left"
        ) from error
    finally:
        _being_written.discard(temporary.name)
        with contextlib.suppress(OSError):  # gone after the rename; on a read-only disk it never was
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes | str) -> None:
    """Put bytes, or a text, in the place of a file; see :func:`replacing`."""
    with replacing(path) as stream:
        stream.write(data.encode("utf-8") if isinstance(data, str) else data)


def remove_leftovers(folder: Path, gone: Owner | None = None) -> None:
    """Remove what processes that were killed while writing left in a folder, and nobody else's.

    Theirs are the files of this process that it does not write any more, of processes that have ended here, and of
    ``gone``, a process elsewhere that is known to have.
    """
    for path in folder.glob(".proximo-*.tmp"):
        owner = Owner.from_name(path.name.removeprefix(".proximo-").rpartition("~")[0])
        if owner is None:
            continue
        left = path.name not in _being_written if owner == Owner.this_process() else owner == gone or owner.is_dead
        if left:
            path.unlink(missing_ok=True)


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it; each is an entry of the one above, which must reach the disk as well."""
    if not folder.exists():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, on systems where a folder can be synced."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(descriptor)


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return "free some space or save to another disk"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "save to a folder that you may write to"
        case errno.EISDIR:
            return "that is a folder: give the name of a file"
        case errno.ENOTDIR | errno.EEXIST:
            return "a part of the path is a file, not a folder: choose another path"
        case errno.ENAMETOOLONG:
            return "choose a shorter name"
    return "check the disk, or save elsewhere"
