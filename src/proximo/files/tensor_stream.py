"""Groups of tensors in the form of safetensors, written and read piece by piece: no more memory than one tensor.

The form is eight bytes that state the length of a header, the header (JSON: name → type, shape, place) and the
tensors' bytes without gaps. What is written here is what the safetensors package writes, byte for byte.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.plain_text import AGAIN, brief, parse_json, printable
from proximo.files.zips import PIECE

_LENGTH_BYTES = 8
_TENSOR_BYTES = 1024  # that a tensor takes beside its numbers
MAX_DIMENSIONS = 32
_ALIGNMENT = 8  # of the tensors, by spaces after the header

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
_NAME_OF_TYPE = {dtype: name for name, dtype in TENSOR_TYPES.items()}
# the order in which the package sorts types: wide ones first, so that all are aligned
_SORTED_TYPES = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")


class TensorGroup:
    """Named tensors as one stream of bytes, of which the length is known."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = dict(
            sorted(tensors.items(), key=lambda item: (_SORTED_TYPES.index(_NAME_OF_TYPE[item[1].dtype]), item[0]))
        )
        header, place = {}, 0
        for name, tensor in self.tensors.items():
            size = tensor.numel() * tensor.element_size()
            header[name] = {
                "dtype": _NAME_OF_TYPE[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [place, place + size],
            }
            place += size
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        self.header = text + b" " * (-len(text) % _ALIGNMENT)
        self.size = _LENGTH_BYTES + len(self.header) + place

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The bytes, in order; of tensors on another device, one is copied at a time."""
        yield len(self.header).to_bytes(_LENGTH_BYTES, "little")
        yield self.header
        for tensor in self.tensors.values():
            yield from _pieces_of(tensor)


def _pieces_of(tensor: torch.Tensor) -> Iterator[memoryview]:
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return
    rows = max(1, PIECE * len(tensor) // (tensor.numel() * tensor.element_size())) if tensor.dim() else 1
    if not tensor.is_contiguous() and rows < len(tensor):  # brought into order a few rows at a time
        for part in tensor.split(rows):
            yield from _pieces_of(part)
        return
    view = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    for start in range(0, len(view), PIECE):
        yield view[start : start + PIECE]


@dataclass(frozen=True)
class _Entry:
    """One tensor as a header describes it."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


def read_group(
    member: str, size: int, read: Callable[[int], bytes], budgets: Budgets, keep: bool = True
) -> dict[str, torch.Tensor]:
    """The tensors of a stream of ``size`` bytes, each in memory of its own; without ``keep`` it is only checked.

    ``read(n)`` gives the next bytes, at most ``n`` and none only at the end.
    """
    start = _exactly(member, read, min(_LENGTH_BYTES, size))
    length = int.from_bytes(start, "little")
    if length > budgets.json_bytes:
        raise ModelFileError(f"{member} states a header of {length} bytes, over {budgets.json_bytes}")
    if len(start) < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise _invalid(member, "it is shorter than its header")
    header = _exactly(member, read, length)
    entries = _entries(member, header, size - _LENGTH_BYTES - length, budgets)
    budgets.make(_TENSOR_BYTES * len(entries) + (size if keep else 0))
    found = {entry.name: _read_tensor(member, entry, read, keep) for entry in entries}
    return dict(sorted(found.items()))


def _entries(member: str, header: bytes, data_size: int, budgets: Budgets) -> list[_Entry]:
    """What a header lists, in the order of the data, which must lie side by side and be all there is."""
    try:
        table = parse_json(header, budgets, f"the header of {member}")
    except ModelFileError as error:
        raise _invalid(member, str(error)) from error
    if not isinstance(table, dict):
        raise _invalid(member, "its header is no table")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _invalid(member, "its metadata are no texts")
    entries = sorted((_entry(member, name, plain) for name, plain in table.items()), key=lambda entry: entry.start)
    end = 0
    for entry in entries:
        if entry.start != end:
            raise _invalid(member, f"the bytes of {entry.name[:80]!a} do not follow those before")
        end = entry.end
    if end != data_size:
        raise _invalid(member, f"its header describes {end} bytes, it holds {data_size}")
    return entries


def _entry(member: str, name: str, plain: Any) -> _Entry:
    where = f"{member}/{name[:80]!a}"
    if not isinstance(plain, dict) or plain.keys() != {"dtype", "shape", "data_offsets"}:
        raise _invalid(member, f"{name[:80]!a} is described in an unknown way")
    shape, offsets = plain["shape"], plain["data_offsets"]
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ModelFileError(f"{where} states the shape {brief(shape)}, which is no tensor; {AGAIN}")
    dtype = TENSOR_TYPES.get(plain["dtype"]) if isinstance(plain["dtype"], str) else None
    if dtype is None:
        raise ModelFileError(
            f"{where} has the type {printable(str(plain['dtype'])[:40])}, expected one of {', '.join(TENSOR_TYPES)}"
        )
    if len(shape) > MAX_DIMENSIONS:
        raise ModelFileError(f"{where} has {len(shape)} dimensions, more than {MAX_DIMENSIONS}")
    is_possible = max(shape, default=0) < 2**63 and math.prod(max(length, 1) for length in shape) < 2**59
    if not is_possible or math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise _invalid(member, f"{name[:80]!a} states the shape {brief(shape)}, which is not that of its bytes")
    return _Entry(name, dtype, tuple(shape), *offsets)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _read_tensor(member: str, entry: _Entry, read: Callable[[int], bytes], keep: bool) -> torch.Tensor:
    size = entry.end - entry.start
    tensor = torch.empty(size if keep else min(size, PIECE), dtype=torch.uint8)
    target, place = tensor.numpy().data, 0
    while place < size:
        piece = _some(member, read, min(PIECE, size - place))
        if entry.dtype is torch.bool and piece.translate(None, b"\x00\x01"):
            raise ModelFileError(
                f"{member}/{entry.name[:80]!a} is a tensor of truth values with bytes other than 0 and 1"
            )
        if keep:
            target[place : place + len(piece)] = piece
        place += len(piece)
    if not keep:
        return torch.empty(0)
    if size == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    return tensor.view(entry.dtype).reshape(entry.shape)


def _exactly(member: str, read: Callable[[int], bytes], count: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < count:
        pieces += _some(member, read, min(PIECE, count - len(pieces)))
    return bytes(pieces)


def _some(member: str, read: Callable[[int], bytes], count: int) -> bytes:
    piece = read(count)
    if not piece:
        raise _invalid(member, "it ends too early")
    return piece


def _invalid(member: str, why: str) -> ModelFileError:
    return ModelFileError(f"{member} is not valid safetensors ({why}); {AGAIN}")
