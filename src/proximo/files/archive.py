"""The model file: one zip with a JSON manifest and tensors, written whole or not at all, read without running code.

Layout (format version 1)::

    manifest.json          {"format": "proximo-model", "format_version": 1,
                            "members": {"policy.safetensors": {"sha256": "…", "size": 123}, …}, …the caller's keys}
    policy.safetensors     one member per group of tensors, in alphabetical order
    …

Members are stored uncompressed: weights hardly shrink, and a file without compression cannot be a bomb, because what
it unpacks to is never longer than the file itself. Equal content gives equal bytes; the order of dictionaries in the
manifest is content and is kept.

The manifest is strict JSON: no NaN or infinity (:mod:`proximo.files.encoding` gives them a form), no repeated key.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import safetensors
import safetensors.torch
import torch

from proximo.errors import ModelFileError
from proximo.files.atomic import replacing

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Tensors: TypeAlias = Mapping[str, Mapping[str, torch.Tensor]]  # group → name → tensor

FORMAT = "proximo-model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
RESERVED_KEYS = frozenset({"format", "format_version", "members"})
TENSOR_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_DIRECTORY_BYTES = 256 * 1024  # what listing the members may read: 64 members need a few KiB
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can state, so that equal content gives equal bytes
_ENCRYPTED = 0x1  # zip flag bits
_STRONG_ENCRYPTION = 0x40
_AGAIN = "the file is damaged or was changed: copy or download it again, or load an earlier checkpoint"
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError, ValueError, struct.error)


@dataclass(frozen=True)
class Budgets:
    """The most that a model file may ask for; checked while writing too, so that what was saved can be loaded."""

    total_bytes: int = 4 * 2**30
    json_bytes: int = 4 * 2**20  # of the manifest, and of the header of each tensor group
    json_depth: int = 32
    members: int = 64


DEFAULT_BUDGETS = Budgets()


# ---------------------------------------------------------------------------------------------------------- writing


def write_archive(
    path: str | os.PathLike[str] | IO[bytes],
    manifest: Mapping[str, Json],
    tensors: Tensors,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> Path | None:
    """Save a manifest and groups of tensors; return the path written, None for a stream.

    A path without suffix gets ``.zip``; missing folders are made; an existing file is replaced in one step, so it is
    the old or the new one at every moment, also when the machine stops half-way.
    """
    members = _serialize(manifest, tensors, budgets)
    if not isinstance(path, str | os.PathLike):
        _write_zip(_checked_stream(path), members)
        return None
    target = Path(path) if Path(path).suffix else Path(f"{os.fspath(path)}.zip")
    with replacing(target) as stream:
        _write_zip(stream, members)
    return target


def _serialize(manifest: Mapping[str, Json], tensors: Tensors, budgets: Budgets) -> dict[str, bytes]:
    """All members as bytes, the manifest first, within the budgets."""
    taken = RESERVED_KEYS & manifest.keys()
    if taken:
        raise ValueError(f"the manifest keys {sorted(taken)} belong to the file format; name yours otherwise")
    groups = {f"{group}.safetensors": _serialize_group(group, tensors[group], budgets) for group in sorted(tensors)}
    members: dict[str, Json] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in groups.items()
    }
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "members": members, **manifest}
    everything = {MANIFEST: _serialize_json(whole, budgets), **groups}
    if len(everything) > budgets.members:
        raise ValueError(f"{len(tensors)} groups of tensors, at most {budgets.members - 1} fit a model file; join some")
    total = sum(map(len, everything.values()))
    if total > budgets.total_bytes:
        raise ValueError(f"the model holds {total} bytes, the budget is {budgets.total_bytes}; pass larger budgets")
    return everything


def _serialize_group(group: str, tensors: Mapping[str, torch.Tensor], budgets: Budgets) -> bytes:
    if not _GROUP_NAME.fullmatch(group):
        raise ValueError(f"tensor group {group!r} is no short identifier (a letter, then up to 47 letters, digits, _)")
    allowed = set(TENSOR_TYPES.values())
    copies = {}
    for name, tensor in tensors.items():
        if name == "__metadata__":
            raise ValueError(f"tensor name '__metadata__' in group {group!r} is reserved by safetensors; rename it")
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in allowed or tensor.layout != torch.strided:
            kind = f"{tensor.layout} {tensor.dtype}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise TypeError(
                f"{group}/{name} is {kind}; a model file holds dense tensors of "
                + ", ".join(str(dtype).removeprefix("torch.") for dtype in TENSOR_TYPES.values())
            )
        # parameters are views of one flat buffer, and safetensors refuses tensors that share memory
        copies[name] = tensor.detach().clone(memory_format=torch.contiguous_format).cpu()
    data = safetensors.torch.save(copies)
    if _header_bytes(data) > budgets.json_bytes:
        raise ValueError(f"group {group!r} holds {len(tensors)} tensors, too many to list; join small ones")
    return data


def _serialize_json(value: Mapping[str, Json], budgets: Budgets) -> bytes:
    try:
        data = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the manifest is not plain JSON ({error}); pass it through proximo.files.encoding") from error
    try:
        same = _parse_json(data, budgets) == value
    except ModelFileError as error:
        raise ValueError(f"the manifest could not be read back: {error}") from error
    if not same:  # tuples and keys that are no strings change silently on the way
        raise TypeError("the manifest changes on its way through JSON; pass it through proximo.files.encoding")
    return data


def _write_zip(stream: IO[bytes], members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # the same bytes on every system
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data)


# ---------------------------------------------------------------------------------------------------------- reading


def read_archive(
    path: str | os.PathLike[str] | IO[bytes], budgets: Budgets = DEFAULT_BUDGETS
) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    """The caller's manifest and the groups of tensors, on the CPU; tries ``path``, then ``path.zip``.

    Anything but an intact file of this format raises :class:`~proximo.errors.ModelFileError`; a path that does not
    exist raises ``FileNotFoundError``. Nothing in the file is executed, imported or unpickled.
    """
    if not isinstance(path, str | os.PathLike):
        return _read_named(_checked_stream(path), "the stream", budgets)
    found = _existing_file(Path(path))
    with found.open("rb") as stream:
        return _read_named(stream, str(found), budgets)


def _existing_file(path: Path) -> Path:
    with_suffix = Path(f"{path}.zip")
    for candidate in (path, with_suffix):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        inside = sorted(entry.name for entry in path.glob("*.zip"))
        hint = f"did you mean {path / inside[0]}?" if inside else "give the path of a .zip file written by save()"
        raise ModelFileError(f"cannot load {path}: it is a folder, expected a model file; {hint}")
    raise FileNotFoundError(errno.ENOENT, f"no model file {path} or {with_suffix}; check the path", str(path))


def _read_named(
    stream: IO[bytes], name: str, budgets: Budgets
) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    try:
        return _read(stream, budgets)
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {name}: {error}") from error.__cause__


def _read(stream: IO[bytes], budgets: Budgets) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    if not stream.seekable():
        raise ModelFileError("a zip is read from its end, and this stream cannot seek; wrap its bytes in io.BytesIO")
    file = _BoundedFile(stream, budgets.total_bytes)
    archive = _open_zip(file)
    entries = _checked_entries(archive, file.size, budgets)
    manifest = _checked_manifest(_parse_json(_read_entry(archive, entries[MANIFEST]), budgets))
    members = manifest["members"]
    if members.keys() != entries.keys() - {MANIFEST}:
        raise ModelFileError(
            f"the zip holds {sorted(entries)}, its manifest lists {sorted(members)}; something was added or removed: "
            "get the file from its source again"
        )
    tensors = {}
    for name, promise in members.items():
        data = _read_entry(archive, entries[name])
        if len(data) != promise["size"] or hashlib.sha256(data).hexdigest() != promise["sha256"]:
            raise ModelFileError(f"{name} does not match the size and SHA-256 in the manifest; {_AGAIN}")
        tensors[name.removesuffix(".safetensors")] = _parse_tensors(name, data, budgets)
    return {key: value for key, value in manifest.items() if key not in RESERVED_KEYS}, tensors


class _BoundedFile:
    """What ``zipfile`` reads from: never outside the file, never more than ``allowance`` bytes before it is renewed.

    ``zipfile`` believes the sizes it finds in the file; this does not.
    """

    def __init__(self, stream: IO[bytes], total_bytes: int) -> None:
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


def _open_zip(file: _BoundedFile) -> zipfile.ZipFile:
    """The zip's list of members; for anything else, an error that says what the file seems to be."""
    if file.size == 0:
        raise ModelFileError("the file is empty; a save was interrupted or the disk was full: load another file")
    try:
        archive = zipfile.ZipFile(file)
    except _ZIP_ERRORS as error:
        file.stream.seek(0)
        start = file.stream.read(16)
        if start.startswith(b"PK"):
            raise ModelFileError(f"a damaged or cut-off zip ({error}); copy or download it again") from error
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


def _checked_entries(archive: zipfile.ZipFile, file_size: int, budgets: Budgets) -> dict[str, zipfile.ZipInfo]:
    """The members by name: plain stored files with allowed names, within the budgets."""
    entries = archive.infolist()
    names = [entry.orig_filename for entry in entries]
    _refuse_foreign(names)
    if len(entries) > budgets.members:
        raise ModelFileError(f"the zip lists {len(entries)} members, the budget is {budgets.members}")
    if len(set(names)) < len(names):
        raise ModelFileError(f"the zip lists a member twice: {_shown(names)}; no such file was written by save()")
    for name, entry in zip(names, entries, strict=True):
        _check_entry(name, entry)
    if sum(entry.file_size for entry in entries) > min(file_size, budgets.total_bytes):
        raise ModelFileError(f"the zip claims more bytes than its {file_size} or than the budget; {_AGAIN}")
    return dict(zip(names, entries, strict=True))


def _refuse_foreign(names: list[str]) -> None:
    if "_stable_baselines3_version" in names:
        raise ModelFileError(
            "this is a Stable-Baselines3 model file, whose hyperparameters are pickled; this version reads only files "
            "written by Proximo: retrain, or in Stable-Baselines3 take policy.state_dict() and load that into "
            "model.policy here"
        )
    if any(name.endswith("data.pkl") for name in names):
        raise ModelFileError(
            "this is a file of torch.save, a pickle; expected a model file written by save(): read it with "
            "torch.load(path, weights_only=True) and pass the weights to policy.load_state_dict()"
        )
    if MANIFEST not in names:
        raise ModelFileError(f"a zip without {MANIFEST} (it holds {_shown(names)}); expected a file written by save()")


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    group = name.removesuffix(".safetensors")
    if name != MANIFEST and (group == name or not _GROUP_NAME.fullmatch(group)):
        raise ModelFileError(f"member {_shown([name])} is not of this format; no such file was written by save()")
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


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(entry) as member:
            data = member.read(entry.file_size)
            end = member.read(1)  # reaching the end also checks the CRC
    except _ZIP_ERRORS as error:
        raise ModelFileError(f"member {_shown([entry.filename])} cannot be read ({error}); {_AGAIN}") from error
    if len(data) != entry.file_size or end:
        raise ModelFileError(f"member {entry.filename} is not as long as stated; {_AGAIN}")
    return data


def _shown(names: list[str]) -> str:
    """Names from a file in a form that is safe to print and not long."""
    text = ", ".join(ascii(name) for name in names)
    return text if len(text) <= 200 else f"{text[:200]}…"


# ------------------------------------------------------------------------------------------- manifest and tensors

_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)


def _parse_json(data: bytes, budgets: Budgets) -> Json:
    """Strict JSON: bounded length and depth, finite numbers, no repeated keys."""
    if len(data) > budgets.json_bytes:
        raise ModelFileError(f"the manifest holds {len(data)} bytes, the budget is {budgets.json_bytes}")
    try:
        text = data.decode("utf-8")
        if _nesting(text, budgets.json_depth) > budgets.json_depth:
            raise ModelFileError(f"the manifest is nested deeper than {budgets.json_depth} levels")
        parsed: Json = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_finite_number, parse_float=_finite_number
        )
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"the manifest is not valid JSON ({error}); {_AGAIN}") from error
    return parsed


def _nesting(text: str, limit: int) -> int:
    """Depth of the brackets outside strings; stops counting beyond the limit, before any parser recurses."""
    depth = deepest = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > limit:
                break
        elif first in "]}":
            depth -= 1
    return deepest


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ModelFileError(f"the manifest repeats a key among {_shown([key for key, _ in pairs])}")
    return unique


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ModelFileError(f"the manifest holds the number {text[:40]}, which is not finite")
    return number


def _checked_manifest(manifest: Json) -> dict[str, Any]:
    """The manifest with its own three keys checked."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        came = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise ModelFileError(f"the manifest states the format {came!r:.60}, expected {FORMAT!r}: a foreign file")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"format_version {version!r:.60} is no version number; {_AGAIN}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it was written by a newer Proximo (file format {version!r:.60}, this one reads up to {FORMAT_VERSION}): "
            "pip install --upgrade proximo"
        )
    members = manifest.get("members")
    if not isinstance(members, dict) or not all(map(_is_promise, members.values())):
        raise ModelFileError(f"the manifest's list of members is malformed; {_AGAIN}")
    return manifest


def _is_promise(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"sha256", "size"}
        and isinstance(value["sha256"], str)
        and type(value["size"]) is int
    )


def _header_bytes(data: bytes) -> int:
    """Length that a safetensors member states for its header."""
    return int.from_bytes(data[:8], "little")


def _parse_tensors(member: str, data: bytes, budgets: Budgets) -> dict[str, torch.Tensor]:
    if _header_bytes(data) > budgets.json_bytes:
        raise ModelFileError(f"{member} states a header of {_header_bytes(data)} bytes, over {budgets.json_bytes}")
    try:
        views = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{member} is not valid safetensors ({str(error)[:200]}); {_AGAIN}") from error
    return {name: _parse_tensor(f"{member}/{name[:80]!r}", view) for name, view in sorted(views)}


def _parse_tensor(name: str, view: Mapping[str, Any]) -> torch.Tensor:
    dtype = TENSOR_TYPES.get(view["dtype"])
    if dtype is None:
        raise ModelFileError(f"{name} has the type {view['dtype']}, expected one of {', '.join(TENSOR_TYPES)}")
    data, shape = view["data"], view["shape"]
    if dtype is torch.bool and len(data.translate(None, b"\x00\x01")) > 0:
        raise ModelFileError(f"{name} is a tensor of truth values with bytes other than 0 and 1")
    try:
        if len(data) == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype).reshape(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{name} states the shape {str(shape)[:80]}, which is no tensor ({error})") from error


def _checked_stream(stream: IO[bytes]) -> IO[bytes]:
    if isinstance(stream, io.TextIOBase) or not (hasattr(stream, "read") or hasattr(stream, "write")):
        raise TypeError(f"expected a path or a binary stream (such as io.BytesIO), got {type(stream).__name__}")
    return stream
