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

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TypeAlias

import safetensors
import safetensors.torch
import torch

from proximo.errors import ModelFileError
from proximo.files.atomic import replacing
from proximo.files.budgets import Budgets
from proximo.files.plain_text import AGAIN, Json, brief, parse_json, printable, shown
from proximo.files.zips import Source, checked_stream, opened, read_members, write_zip

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

MAX_DIMENSIONS = 32

_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TENSOR_BYTES = 1024  # that a tensor takes beside its numbers


# ---------------------------------------------------------------------------------------------------------- writing


def write_archive(
    path: Source,
    manifest: Mapping[str, Json],
    tensors: Tensors,
    budgets: Budgets | None = None,
) -> Path | None:
    """Save a manifest and groups of tensors; return the path written, None for a stream.

    A path without suffix gets ``.zip``; missing folders are made; an existing file is replaced in one step, so it is
    the old or the new one at every moment, also when the machine stops half-way.
    """
    members = _serialize(manifest, tensors, budgets or Budgets())
    if not isinstance(path, str | os.PathLike):
        write_zip(checked_stream(path), members)
        return None
    target = Path(path) if Path(path).suffix else Path(f"{os.fspath(path)}.zip")
    with replacing(target) as stream:
        write_zip(stream, members)
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
        same = parse_json(data, budgets) == value
    except ModelFileError as error:
        raise ValueError(f"the manifest could not be read back: {error}") from error
    if not same:  # tuples and keys that are no strings change silently on the way
        raise TypeError("the manifest changes on its way through JSON; pass it through proximo.files.encoding")
    return data


# ---------------------------------------------------------------------------------------------------------- reading


def read_archive(
    path: Source, budgets: Budgets | None = None
) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    """The caller's manifest and the groups of tensors, on the CPU; tries ``path``, then ``path.zip``.

    Anything but an intact file of this format raises :class:`~proximo.errors.ModelFileError`; a path that does not
    exist raises ``FileNotFoundError``. Nothing in the file is executed, imported or unpickled. Who decodes values of
    the manifest hands the same budgets on.
    """
    with opened(path) as (stream, _):
        return _read(stream, budgets or Budgets())


def _read(stream: IO[bytes], budgets: Budgets) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    zipped = read_members(stream, budgets, _is_member, _refuse_foreign)
    budgets.grant(zipped.file_bytes)
    manifest = _checked_manifest(parse_json(zipped.read(MANIFEST), budgets))
    members = manifest["members"]
    if members.keys() != zipped.entries.keys() - {MANIFEST}:
        raise ModelFileError(
            f"the zip holds {shown(sorted(zipped.entries))}, its manifest lists {shown(sorted(members))}; something "
            "was added or removed: get the file from its source again"
        )
    tensors = {}
    for name, promise in members.items():
        data = zipped.read(name)
        if len(data) != promise["size"] or hashlib.sha256(data).hexdigest() != promise["sha256"]:
            raise ModelFileError(f"{name} does not match the size and SHA-256 in the manifest; {AGAIN}")
        tensors[name.removesuffix(".safetensors")] = _parse_tensors(name, data, budgets)
    return {key: value for key, value in manifest.items() if key not in RESERVED_KEYS}, tensors


def verify_archive(path: Source, budgets: Budgets | None = None) -> None:
    """Raise unless every byte is as :func:`write_archive` wrote it, also those that no reader looks at."""
    budgets = budgets or Budgets()
    with opened(path) as (stream, _):
        _read(stream, budgets)
        zipped = read_members(stream, budgets, _is_member, _refuse_foreign)
        written = io.BytesIO()
        write_zip(written, {name: zipped.read(name) for name in zipped.entries})
        stream.seek(0)
        if stream.read() != written.getvalue():
            raise ModelFileError(f"bytes around its members are not those that were written; {AGAIN}")


def _is_member(name: str) -> bool:
    group = name.removesuffix(".safetensors")
    return name == MANIFEST or (group != name and _GROUP_NAME.fullmatch(group) is not None)


def _refuse_foreign(names: list[str]) -> None:
    if "_stable_baselines3_version" in names:
        raise ModelFileError(
            "this is a Stable-Baselines3 model file; load it with the class of its algorithm, as PPO.load, or make "
            "it a file of Proximo: proximo convert MODEL OUT"
        )
    if any(name.endswith("data.pkl") for name in names):
        raise ModelFileError(
            "this is a file of torch.save, a pickle; expected a model file written by save(): read it with "
            "torch.load(path, weights_only=True) and pass the weights to policy.load_state_dict()"
        )
    if MANIFEST not in names:
        raise ModelFileError(f"a zip without {MANIFEST} (it holds {shown(names)}); expected a file written by save()")


# ------------------------------------------------------------------------------------------- manifest and tensors


def _checked_manifest(manifest: Json) -> dict[str, Any]:
    """The manifest with its own three keys checked."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        came = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise ModelFileError(f"the manifest states the format {brief(came)}, expected {FORMAT!r}: a foreign file")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"format_version {brief(version)} is no version number; {AGAIN}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"it was written by a newer Proximo (file format {brief(version)}, this one reads up to {FORMAT_VERSION}): "
            "pip install --upgrade proximo"
        )
    members = manifest.get("members")
    if not isinstance(members, dict) or not all(map(_is_promise, members.values())):
        raise ModelFileError(f"the manifest's list of members is malformed; {AGAIN}")
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
        raise ModelFileError(f"{member} is not valid safetensors ({printable(str(error))}); {AGAIN}") from error
    budgets.make(_TENSOR_BYTES * len(views) + len(data))
    return {name: _parse_tensor(f"{member}/{name[:80]!a}", view) for name, view in sorted(views, key=itemgetter(0))}


def _parse_tensor(name: str, view: Mapping[str, Any]) -> torch.Tensor:
    dtype = TENSOR_TYPES.get(view["dtype"])
    if dtype is None:
        raise ModelFileError(f"{name} has the type {view['dtype']}, expected one of {', '.join(TENSOR_TYPES)}")
    data, shape = view["data"], view["shape"]
    if len(shape) > MAX_DIMENSIONS:
        raise ModelFileError(f"{name} has {len(shape)} dimensions, more than {MAX_DIMENSIONS}")
    if dtype is torch.bool and len(data.translate(None, b"\x00\x01")) > 0:
        raise ModelFileError(f"{name} is a tensor of truth values with bytes other than 0 and 1")
    try:
        if len(data) == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype).reshape(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{name} states the shape {str(shape)[:80]}, which is no tensor ({error})") from error
