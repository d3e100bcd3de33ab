"""Nested plain data with arrays in it: the structure as JSON, the arrays as tensors beside it.

>>> structure, tensors = split({"steps": 3, "frames": np.arange(20, dtype=np.uint32)})
>>> structure["frames"], tensors["0"].dtype
({'$': 'stored', 'value': ['0', 'uint32']}, torch.int32)
>>> join(structure, tensors)["frames"][-1]
np.uint32(19)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from proximo.data import Array
from proximo.errors import ModelFileError
from proximo.files.encoding import decode, encode, register
from proximo.files.zips import Json

LISTED_ELEMENTS = 16
"""Arrays up to this size are written out in the JSON: a tensor's entry in a file takes more room than they do."""

_SIGNED = {"uint16": np.int16, "uint32": np.int32, "uint64": np.int64}  # model files hold no unsigned words
_STORED = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", *_SIGNED)
_TENSOR = "tensor"  # the type of what was a tensor before and is one again


@dataclass(frozen=True)
class _Stored:
    """Stands where an array was: its name among the tensors, and its type."""

    name: str
    type: str


def _stored_from_plain(plain: Any) -> _Stored:
    name, kind = plain
    if not isinstance(name, str) or kind not in (*_STORED, _TENSOR):
        raise ValueError(f"expected the name and type of an array, got {str(plain)[:80]}")
    return _Stored(name, kind)


register("stored", _Stored, lambda stored: [stored.name, stored.type], _stored_from_plain)


def split(tree: Any) -> tuple[Json, dict[str, torch.Tensor]]:
    """The JSON of nested dictionaries, lists and tuples of plain values, and their arrays and tensors by name.

    ``proximo.files.encoding.Unsafe``, a ``TypeError``, for a value that has no safe form in a file.
    """
    tensors: dict[str, torch.Tensor] = {}

    def store(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            stored, tensor = _Stored(str(len(tensors)), _TENSOR), leaf
        elif type(leaf) is np.ndarray and leaf.size > LISTED_ELEMENTS and leaf.dtype.name in _STORED:
            stored, tensor = _Stored(str(len(tensors)), leaf.dtype.name), _as_tensor(leaf)
        else:
            return leaf
        tensors[stored.name] = tensor
        return stored

    return encode(_mapped(tree, store)), tensors


def join(structure: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    """What :func:`split` was given; arrays are the caller's own."""

    def fetch(leaf: Any) -> Any:
        if not isinstance(leaf, _Stored):
            return leaf
        if leaf.name not in tensors:
            raise ModelFileError(f"the file lacks the tensor {leaf.name!r:.40} that its manifest names")
        tensor = tensors[leaf.name]
        if leaf.type == _TENSOR:
            return tensor.clone()
        expected = np.dtype(_SIGNED.get(leaf.type, leaf.type))
        array = tensor.numpy()
        if array.dtype != expected:
            raise ModelFileError(f"the tensor {leaf.name!r:.40} is {array.dtype}, its manifest says {expected}")
        return array.copy().view(leaf.type)

    return _mapped(decode(structure), fetch)


def _as_tensor(array: Array) -> torch.Tensor:
    words = np.ascontiguousarray(array)
    return torch.from_numpy(words.view(_SIGNED.get(array.dtype.name, array.dtype)).copy())


def _mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _mapped(value, function) for key, value in tree.items()}
    if type(tree) is list or type(tree) is tuple:
        return type(tree)(_mapped(value, function) for value in tree)
    return function(tree)
