"""Zips of unknown origin, read within budgets: what a file claims about itself is checked, not believed."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.plain_text import AGAIN, printable, shown

Source: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

_DIRECTORY_BYTES = 256 * 1024  # what listing the members may read: 64 members need a few KiB
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can state, so that equal content gives equal bytes
_ENCRYPTED = 0x1  # zip flag bits
_STRONG_ENCRYPTION = 0x40
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError, ValueError, struct.error)


# ---------------------------------------------------------------------------------------------------------- sources


@contextmanager
def opened(source: Source) -> Iterator[tuple[IO[bytes], str]]:
    """A binary stream and its name in messages; of a path, tries ``path``, then ``path.zip``.

    Errors about the file get its name in front.
    """
    if isinstance(source, str | os.PathLike):
        path = existing_file(Path(source))
        with path.open("rb") as stream, _naming(str(path)):
            yield stream, str(path)
        return
    with _naming("the stream"):
        yield checked_stream(source), "the stream"


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except ModelFileError as error:
        raise type(error)(f"cannot load {name}: {error}") from error.__cause__


def existing_file(path: Path) -> Path:
    with_suffix = Path(f"{path}.zip")
    for candidate in (path, with_suffix):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        inside = sorted(entry.name for entry in path.glob("*.zip"))
        hint = f"did you mean {path / inside[0]}?" if inside else "give the path of a .zip file written by save()"
        raise ModelFileError(f"cannot load {path}: it is a folder, expected a model file; {hint}")
    raise FileNotFoundError(errno.ENOENT, f"no model file {path} or {with_suffix}; check the path", str(path))


def checked_stream(stream: IO[bytes]) -> IO[bytes]:
    if isinstance(stream, io.TextIOBase) or not (hasattr(stream, "read") or hasattr(stream, "write")):
        raise TypeError(f"expected a path or a binary stream (such as io.BytesIO), got {type(stream).__name__}")
    return stream


# ------------------------------------------------------------------------------------------------------------- zips


class BoundedFile:
    """What ``zipfile`` reads from: never outside the file, never more than ``allowance`` bytes before it is renewed.

    ``zipfile`` believes the sizes it finds in the file; this does not.
    """

    def __init__(self, stream: IO[bytes], total_bytes: int) -> None:
        if not stream.seekable():
            raise ModelFileError(
                "a zip is read from its end, and this stream cannot seek; wrap its bytes in io.BytesIO"
            )
        self.stream = stream
        self.size = stream.seek(0, io.SEEK_END)
        self.allowance = _DIRECTORY_BYTES
        if self.size > total_bytes + _DIRECTORY_BYTES:
            raise ModelFileError(f"it holds {self.size} bytes, the budget is {total_bytes}; pass larger budgets")

    def read(self, count: int = -1, /) -> bytes:
        count = self.size if count < 0 else count
        data = self.stream.read(min(count, self.allowance + 1))
        self.allowance -= len(data)
        if self.allowance < 0:
            raise zipfile.BadZipFile("its directory is longer than any model file needs")
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.stream.tell(), io.SEEK_END: self.size}[whence]
        if not 0 <= start + offset <= self.size:
            raise zipfile.BadZipFile("it points outside itself")
        return self.stream.seek(start + offset)

    def tell(self) -> int:
        return self.stream.tell()

    def seekable(self) -> bool:
        return True


@dataclass(frozen=True)
class Members:
    """The checked members of a zip, by name in the order of its directory."""

    archive: zipfile.ZipFile
    entries: dict[str, zipfile.ZipInfo]
    file_bytes: int  # of the whole zip

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def sizes(self) -> dict[str, int]:
        return {name: entry.file_size for name, entry in self.entries.items()}

    def read(self, name: str) -> bytes:
        entry = self.entries[name]
        try:
            with self.archive.open(entry) as member:
                data = member.read(entry.file_size)
                end = member.read(1)  # reaching the end also checks the CRC
        except _ZIP_ERRORS as error:
            raise ModelFileError(
                f"member {shown([entry.filename])} cannot be read ({printable(str(error))}); {AGAIN}"
            ) from error
        if len(data) != entry.file_size or end:
            raise ModelFileError(f"member {shown([entry.filename])} is not as long as stated; {AGAIN}")
        return data


def read_members(
    stream: IO[bytes],
    budgets: Budgets,
    is_member: Callable[[str], bool],
    recognize: Callable[[list[str]], None] = lambda names: None,
    max_members: int | None = None,
) -> Members:
    """The members of a zip: plain stored files with allowed names, within the budgets.

    ``recognize`` sees all names first, to say what a foreign file is; ``max_members`` goes before the budget's.
    """
    max_members = max_members or budgets.members
    file = BoundedFile(stream, budgets.total_bytes)
    archive = _open_zip(file)
    entries = archive.infolist()
    names = [entry.orig_filename for entry in entries]
    recognize(names)
    if len(entries) > max_members:
        raise ModelFileError(f"the zip lists {len(entries)} members, the budget is {max_members}")
    if len(set(names)) < len(names):
        raise ModelFileError(f"the zip lists a member twice: {shown(names)}; no such file was written by save()")
    for name, entry in zip(names, entries, strict=True):
        if not is_member(name):
            raise ModelFileError(f"member {shown([name])} is not of this format; no such file was written by save()")
        _check_entry(name, entry)
    if sum(entry.file_size for entry in entries) > min(file.size, budgets.total_bytes):
        raise ModelFileError(f"the zip claims more bytes than its {file.size} or than the budget; {AGAIN}")
    return Members(archive, dict(zip(names, entries, strict=True)), file.size)


def member_names(stream: IO[bytes]) -> list[str]:
    """What a zip lists, unchecked, to tell formats apart; nothing for a file that is no zip."""
    try:
        return [entry.orig_filename for entry in _open_zip(BoundedFile(stream, 2**62)).infolist()]
    except ModelFileError:
        return []
    finally:
        stream.seek(0)


def _open_zip(file: BoundedFile) -> zipfile.ZipFile:
    """The zip's list of members; for anything else, an error that says what the file seems to be."""
    if file.size == 0:
        raise ModelFileError("the file is empty; a save was interrupted or the disk was full: load another file")
    try:
        archive = zipfile.ZipFile(file)
    except _ZIP_ERRORS as error:
        file.stream.seek(0)
        start = file.stream.read(16)
        if start.startswith(b"PK"):
            raise ModelFileError(
                f"a damaged or cut-off zip ({printable(str(error))}); copy or download it again"
            ) from error
        if start[:1] == b"\x80" and start[1:2] <= b"\x05":
            raise ModelFileError(
                "this is a pickle, and unpickling runs whatever code the file names; expected a model file written by "
                "save(): load it with the program that wrote it and pass on plain weights"
            ) from error
        raise ModelFileError(
            f"not a zip (it starts with {start!r}); expected a model file written by save()"
        ) from error
    file.allowance = 2 * file.size + _DIRECTORY_BYTES  # each member once, with its header
    return archive


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    file_type = stat.S_IFMT(entry.external_attr >> 16)
    if file_type not in (0, stat.S_IFREG):
        raise ModelFileError(f"member {name} is a link or a special file; no such file was written by save()")
    if entry.flag_bits & (_ENCRYPTED | _STRONG_ENCRYPTION):
        raise ModelFileError(f"member {name} is encrypted; model files are not: unpack it and write a plain zip")
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise ModelFileError(
            f"member {name} is compressed; members are stored as they are, so that no small file unpacks to a huge "
            "one: repack it without compression (zip -0)"
        )


def write_zip(stream: IO[bytes], members: Mapping[str, bytes]) -> None:
    """Stored members in the given order; equal content gives equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # the same bytes on every system
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data)
