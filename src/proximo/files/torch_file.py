"""Files of ``torch.save``, read without torch's unpickler: tensors and plain values, nothing else.

A file is a zip of ``data.pkl``, which says how tensors lie in memory, and one member per piece of memory. The pickle
goes through :mod:`proximo.files.restricted_pickle`; memory is only what the file really holds.
"""

from __future__ import annotations

import io
import re
from typing import Any

import torch
from torch import Tensor

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.known_values import Translator, known_value
from proximo.files.plain_text import brief
from proximo.files.restricted_pickle import Made, Name, Persistent, read_pickle
from proximo.files.zips import Members, read_members

MAX_MEMBERS = 16384
_TENSOR_BYTES = 1024  # that a tensor takes beside its numbers
_MEMBER = re.compile(r"[A-Za-z0-9_.-]{1,100}/(data\.pkl|data/\d{1,6}|version|byteorder|\.[A-Za-z0-9_./-]{1,60})")
_STORAGES = {
    Name("torch", f"{kind}Storage"): dtype
    for kind, dtype in {
        "Float": torch.float32,
        "Double": torch.float64,
        "Half": torch.float16,
        "BFloat16": torch.bfloat16,
        "Long": torch.int64,
        "Int": torch.int32,
        "Short": torch.int16,
        "Char": torch.int8,
        "Byte": torch.uint8,
        "Bool": torch.bool,
    }.items()
}


def read_torch_file(data: bytes, budgets: Budgets | None = None) -> Any:
    """The value that was saved: tensors on the CPU in dictionaries, lists, numbers and texts.

    The budgets are those of the file that ``data`` is a member of; without, those of a file of this length.
    """
    if budgets is None:
        budgets = Budgets()
        budgets.grant(len(data))
    stream = io.BytesIO(data)
    members = read_members(stream, budgets, lambda name: _MEMBER.fullmatch(name) is not None, max_members=MAX_MEMBERS)
    roots = {name.partition("/")[0] for name in members.entries}
    root = roots.pop() if len(roots) == 1 else ""
    if f"{root}/data.pkl" not in members:
        raise ModelFileError("no file of torch.save: it lacks data.pkl")
    if f"{root}/byteorder" in members and members.read(f"{root}/byteorder") != b"little":
        raise ModelFileError("the tensors are not little-endian; save them again on a common computer")
    memory = _Memory(members, root)
    makers = {
        Name("torch._utils", "_rebuild_tensor_v2"): memory.tensor,
        Name("torch._utils", "_rebuild_parameter"): _parameter,
    }
    return known_value(read_pickle(members.read(f"{root}/data.pkl"), budgets).value, budgets, makers)


def _parameter(translator: Translator, made: Made) -> Tensor:
    tensor = translator.translate(made.arguments[0])
    if not isinstance(tensor, Tensor):
        raise TypeError("a parameter that is no tensor")
    return tensor


class _Memory:
    """The pieces of memory of a file, each read once."""

    def __init__(self, members: Members, root: str) -> None:
        self.members, self.root = members, root
        self.pieces: dict[str, Tensor] = {}

    def tensor(self, translator: Translator, made: Made) -> Tensor:
        place, offset, size, strides = made.arguments[:4]
        piece = self._piece(place)
        if not isinstance(size, tuple) or not isinstance(strides, tuple) or not len(size) == len(strides) <= 16:
            raise ValueError("a tensor of impossible size")
        if not all(type(number) is int and 0 <= number < 2**40 for number in (offset, *size, *strides)):
            raise ValueError("a tensor of impossible size")
        count = 1
        for length in size:
            count *= length
        last = offset + sum((length - 1) * stride for length, stride in zip(size, strides, strict=True))
        if count > len(piece) or (count and last >= len(piece)):  # each number of the memory at most once
            raise ValueError(f"a tensor of {count} numbers in a memory of {len(piece)}")
        translator.budgets.make(_TENSOR_BYTES + count * piece.element_size())
        return piece.as_strided(size, strides, offset if count else 0)

    def _piece(self, place: Any) -> Tensor:
        match place:
            case Persistent(identifier=("storage", Name() as kind, str() as key, str(), int())) if (
                kind in _STORAGES and len(key) <= 6
            ):
                if key not in self.pieces:
                    self.pieces[key] = self._read(f"{self.root}/data/{key}", _STORAGES[kind])
                if self.pieces[key].dtype != _STORAGES[kind]:
                    raise ValueError("one memory for two types of number")
                return self.pieces[key]
        raise TypeError("a tensor without memory of a known kind")

    def _read(self, member: str, dtype: torch.dtype) -> Tensor:
        if member not in self.members:
            raise ValueError(f"{brief(member)} is missing")
        data = self.members.read(member)
        if len(data) % dtype.itemsize or (dtype is torch.bool and data.translate(None, b"\x00\x01")):
            raise ValueError(f"{member} does not hold numbers of type {dtype}")
        return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
