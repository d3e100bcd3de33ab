"""Values as JSON: plain values, arrays, spaces, schedules and known classes by bare name, never by import path.

What JSON has a form for keeps it. Anything else becomes ``{"$": kind, "value": …}``, where ``kind`` is looked up in
a table of this process; a file can only name what is already in the table, so decoding imports and runs nothing.

>>> encode({"net_arch": [64, 64], "clip_range_vf": None, "shape": (4,)})
{'net_arch': [64, 64], 'clip_range_vf': None, 'shape': {'$': 'tuple', 'value': [4]}}
>>> decode(encode(spaces.Discrete(3, start=1)))
Discrete(3, start=1)

Given a dictionary for tensors, arrays are stored there, beside the JSON:

>>> tensors = {}
>>> encode(np.arange(20, dtype=np.uint32), tensors), tensors["0"].dtype
({'$': 'stored', 'value': ['0', 'uint32']}, torch.int32)

A value with no safe form (a lambda, a class of the user) is :class:`Unsafe`; :mod:`proximo.files.fields` names such
values in a file, and asks the caller for them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from proximo.data import Array
from proximo.errors import ModelFileError, near_matches
from proximo.files.budgets import MIB, Budgets
from proximo.files.plain_text import MAX_INTEGER_BITS, Json, brief, printable
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule, known_schedule

Tensors: TypeAlias = dict[str, torch.Tensor]

MAX_DEPTH = 24  # levels of JSON; leaves room for the manifest around it
MAX_LISTED_ELEMENTS = 2**16  # of one array written out; larger ones belong in a group of tensors
MAX_FILLED_BYTES = 24 * MIB  # of all arrays of one value: a short text describes them, and spaces are made of them
MAX_DIMENSIONS = 32
SPACE_BYTES = 32 * 1024  # that a space takes, and what a policy makes of it
LISTED_ELEMENTS = 16
"""Arrays up to this size stay in the JSON: a tensor's entry in a file takes more room than they do."""

_TAG = "$"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ARRAY_TYPES: tuple[str, ...] = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ARRAY_TYPES += ("float16", "float32", "float64")
_SIGNED: dict[str, Any] = {
    "uint16": np.int16,
    "uint32": np.int32,
    "uint64": np.int64,
}  # model files hold no unsigned words
_TENSOR = "tensor"  # the type of what was a tensor before and is one again
MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Unsafe(TypeError):
    """A value that has no safe form in a file; the message describes it in a few words."""

    where = ""  # within the whole value, such as ``['infos'][2]``


# ----------------------------------------------------------------------------------------------------------- tables

_KIND_OF_TYPE: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_KINDS: dict[str, Callable[[Any], Any]] = {}
_CLASSES: dict[str, type] = {}
_NAME_OF_CLASS: dict[type, str] = {}
_BUILT_IN_KINDS = ("float", "tuple", "dict", "array", "scalar", "class", "stored")


def register(kind: str, of_type: type, to_plain: Callable[[Any], Any], from_plain: Callable[[Any], Any]) -> None:
    """Teach the encoding a type: ``to_plain`` gives something encodable, ``from_plain`` makes the value of it again.

    Only values of exactly this type are written so; a subclass may hold more than ``to_plain`` knows of.
    ``from_plain`` is given what a file says: it must check its input by raising the usual errors, and run none of it.
    """
    if kind in _BUILT_IN_KINDS or (kind in _KINDS and _KIND_OF_TYPE.get(of_type, ("", None))[0] != kind):
        raise ValueError(f"the kind {kind!r} is taken; choose another name for {of_type.__name__}")
    _KIND_OF_TYPE[of_type] = (kind, to_plain)
    _KINDS[kind] = from_plain


def register_arguments(of_type: type, arguments: Callable[[Any], dict[str, Any]]) -> None:
    """Teach the encoding a type that is made again from the arguments it was made with."""

    def from_plain(plain: Any) -> Any:
        return of_type(**_expect(dict, plain))

    register(of_type.__name__, of_type, arguments, from_plain)


def register_alias(of_type: type, like: type) -> None:
    """Write values of a type as those of another one, which they are again when they are read."""
    _KIND_OF_TYPE[of_type] = _KIND_OF_TYPE[like]


def register_class(name: str, cls: type) -> None:
    """Let files name a class (the class itself is the value, as in ``activation_fn=nn.Tanh``) by a bare name."""
    if _CLASSES.get(name, cls) is not cls:
        raise ValueError(f"the class name {name!r} is taken by {_CLASSES[name]}; choose another for {cls}")
    _CLASSES[name] = cls
    _NAME_OF_CLASS.setdefault(cls, name)


def register_class_alias(cls: type, like: type) -> None:
    """Write a class by the name of another one, which it is again when it is read."""
    _NAME_OF_CLASS[cls] = _NAME_OF_CLASS[like]


# --------------------------------------------------------------------------------------------------------- encoding


def encode(value: Any, tensors: Tensors | None = None) -> Json:
    """The JSON of a value; :class:`Unsafe` if it, or a part of it, has none.

    Tensors and the larger arrays go into ``tensors`` by name, uncopied; without it, tensors have no form and arrays are
    listed.
    """
    encoder = Encoder(tensors)
    try:
        return encoder.encode(value, depth=0)
    except Unsafe as unsafe:
        unsafe.where = "".join(f"[{part!r}]" for part in encoder.path)
        raise


class Encoder:
    """One pass of encoding, with its budget of bytes in arrays."""

    def __init__(self, tensors: Tensors | None = None) -> None:
        self.tensors = tensors
        self.bytes_left = MAX_FILLED_BYTES
        self.path: list[str | int] = []  # of the part that is being encoded, or has no form

    def encode(self, value: Any, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise Unsafe(f"nested deeper than {MAX_DEPTH} levels")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if value.bit_length() > MAX_INTEGER_BITS:
                raise Unsafe(f"integer of {value.bit_length()} bits")
            return value
        if kind is float:
            return value if math.isfinite(value) else _tagged("float", _non_finite_name(value))
        if kind is list:
            return [self._part(index, item, depth + 1) for index, item in enumerate(value)]
        if kind is tuple:
            return _tagged("tuple", [self._part(index, item, depth + 2) for index, item in enumerate(value)])
        if kind is dict or kind is OrderedDict or (isinstance(value, dict) and self.tensors is not None):
            return self._encode_dict(value, depth)
        return self._encode_object(value, depth)

    def _part(self, key: str | int, value: Any, depth: int) -> Json:
        self.path.append(key)
        encoded = self.encode(value, depth)
        self.path.pop()
        return encoded

    def _encode_dict(self, value: dict[Any, Any], depth: int) -> Json:
        if is_plain_dict(value):
            return {key: self._part(key, item, depth + 1) for key, item in value.items()}
        if not all(map(_is_key, value)):
            raise Unsafe("dict with keys that are neither str nor int (of 60 bits)")
        return _tagged("dict", [[key, self._part(key, item, depth + 3)] for key, item in value.items()])

    def _encode_object(self, value: Any, depth: int) -> Json:
        if isinstance(value, type):
            if value not in _NAME_OF_CLASS:
                raise Unsafe(f"class {value.__qualname__}")
            return _tagged("class", _NAME_OF_CLASS[value])
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, torch.Tensor) and self.tensors is not None:
            return self._stored(value, _TENSOR)
        if isinstance(value, np.generic):
            return _tagged("scalar", self._encode_array(np.asarray(value)))
        if type(value) is np.ndarray:
            name = value.dtype.name
            if self.tensors is not None and value.size > LISTED_ELEMENTS and name in _ARRAY_TYPES:
                words = value.view(_SIGNED.get(name, value.dtype))
                fits = words.flags.writeable and min(words.strides) >= 0  # a tensor's memory; large arrays are that
                return self._stored(torch.from_numpy(words if fits else words.copy()), name)
            return _tagged("array", self._encode_array(value))
        value = known_schedule(value)  # one of another library that means the same as one here
        if type(value) not in _KIND_OF_TYPE:
            raise Unsafe(_described(value))
        kind, to_plain = _KIND_OF_TYPE[type(value)]
        return _tagged(kind, self.encode(to_plain(value), depth + 1))

    def _stored(self, tensor: torch.Tensor, kind: str) -> Json:
        tensors: Tensors = self.tensors  # type: ignore[assignment]
        name = str(len(tensors))
        tensors[name] = tensor
        return _tagged("stored", [name, kind])

    def _encode_array(self, array: Array) -> Json:
        """Type, shape and values in C order; only the first value when all are the same, bit for bit."""
        name = array.dtype.name
        if name not in _ARRAY_TYPES or not array.dtype.isnative:
            raise Unsafe(f"array of {array.dtype}")
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = flat.view(f"u{array.dtype.itemsize}")
        uniform = flat.size > 0 and bool((bits == bits[0]).all())
        if flat.nbytes > self.bytes_left or (flat.size > MAX_LISTED_ELEMENTS and not uniform):
            raise Unsafe(f"array of {flat.size} {name} values, too many for the manifest")
        self.bytes_left -= flat.nbytes
        values = (flat[:1] if uniform else flat).tolist()
        if array.dtype.kind == "f":
            values = [number if math.isfinite(number) else _non_finite_name(number) for number in values]
        shape: list[Json] = [int(size) for size in array.shape]
        return {"dtype": name, "shape": shape, "fill" if uniform else "values": values[0] if uniform else values}


def _tagged(kind: str, value: Json) -> Json:
    return {_TAG: kind, "value": value}


def is_plain_dict(value: dict[Any, Any]) -> bool:
    return _TAG not in value and all(type(key) is str for key in value)


def _non_finite_name(number: float) -> str:
    return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")


def _described(value: Any) -> str:
    """What a value is, in the words of the error that will ask for it."""
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return f"function {name}"
    return f"object of class {type(value).__qualname__}"


# --------------------------------------------------------------------------------------------------------- decoding


def decode(
    encoded: Json,
    tensors: Mapping[str, torch.Tensor] | None = None,
    budgets: Budgets | None = None,
    copy: bool = True,
) -> Any:
    """The value of :func:`encode`'s JSON; :class:`~proximo.errors.ModelFileError` for anything else.

    Arrays and tensors are the caller's own; without ``copy`` they are those of ``tensors``, each at most once. The
    budgets are those of the file; without, those of a file of the tensors' length.
    """
    return Decoder(tensors, budgets, copy).decode(encoded)


def class_name(cls: type) -> str | None:
    """The bare name by which files know a class; None for one that is not registered."""
    return _NAME_OF_CLASS.get(cls)


class Decoder:
    """One pass of decoding, within the budgets of a file."""

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor] | None = None,
        budgets: Budgets | None = None,
        copy: bool = True,
    ) -> None:
        self.tensors = dict(tensors or {})
        self.copy = copy
        if budgets is None:
            budgets = Budgets()
            budgets.grant(sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values()))
        self.budgets = budgets

    def decode(self, encoded: Json, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise ModelFileError(f"a value in the file is nested deeper than {MAX_DEPTH} levels")
        if isinstance(encoded, list):
            return [self.decode(item, depth + 1) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        if _TAG not in encoded:
            return {key: self.decode(item, depth + 1) for key, item in encoded.items()}
        kind = encoded[_TAG]
        if not isinstance(kind, str) or encoded.keys() != {_TAG, "value"}:
            raise ModelFileError("a value in the file is tagged in an unknown way; it was changed or is damaged")
        try:
            return self._decode_tagged(kind, encoded["value"], depth)
        except ModelFileError:
            raise
        except MALFORMED as error:
            raise ModelFileError(
                f"a value of kind {brief(kind)} in the file is malformed: {printable(str(error))}"
            ) from error

    def _decode_tagged(self, kind: str, value: Json, depth: int) -> Any:
        match kind:
            case "float":
                return _NON_FINITE[_expect(str, value)]
            case "tuple":
                return tuple(self.decode(item, depth + 2) for item in _expect(list, value))
            case "dict":
                return {_dict_key(key): self.decode(item, depth + 3) for key, item in _expect(list, value)}
            case "array":
                return self._decode_array(_expect(dict, value))
            case "scalar":
                return self._decode_array(_expect(dict, value)).reshape(())[()]
            case "class":
                return _CLASSES[_known(_expect(str, value), _CLASSES, "class")]
            case "stored":
                return self._fetch(*_expect(list, value))
        make = _KINDS[_known(kind, _KINDS, "kind of value")]
        before = self.budgets.made_bytes
        plain = self.decode(value, depth + 1)
        self.budgets.make(SPACE_BYTES + 4 * max(before - self.budgets.made_bytes, 0))
        return make(plain)

    def _fetch(self, name: Any, kind: Any) -> Any:
        if _expect(str, name) not in self.tensors:
            raise ModelFileError(f"the file lacks the tensor {brief(name)} that its manifest names")
        tensor = self.tensors[name] if self.copy else self.tensors.pop(name)
        if self.copy:
            self.budgets.make(tensor.numel() * tensor.element_size())
            tensor = tensor.clone()
        if _expect(str, kind) == _TENSOR:
            return tensor
        expected = np.dtype(_SIGNED.get(kind, _known(kind, _ARRAY_TYPES, "array type")))
        array = tensor.numpy()
        if array.dtype != expected:
            raise ModelFileError(f"the tensor {brief(name)} is {array.dtype}, its manifest says {expected}")
        return array.view(kind)

    def _decode_array(self, plain: dict[str, Json]) -> Array:
        dtype = np.dtype(_known(_expect(str, plain["dtype"]), _ARRAY_TYPES, "array type"))
        shape = tuple(_expect(int, size) for size in _expect(list, plain["shape"]))
        if len(shape) > MAX_DIMENSIONS or not all(0 <= size < 2**48 for size in shape):
            raise ValueError("an array of impossible shape")
        self.budgets.make(math.prod(shape) * dtype.itemsize)
        if plain.keys() == {"dtype", "shape", "fill"}:
            return np.full(shape, _element(plain["fill"], dtype), dtype)
        values = [_element(value, dtype) for value in _expect(list, plain["values"])]
        return np.array(values, dtype).reshape(shape)


def _expect(expected: type, value: Any) -> Any:
    if type(value) is not expected:
        raise TypeError(f"expected {expected.__name__}, got {type(value).__name__}")
    return value


def _is_key(key: Any) -> bool:
    """Larger integers can be chosen to have one hash, and a dictionary of them takes the square of their number."""
    return type(key) is str or (type(key) is int and -(2**60) < key < 2**60)


def _dict_key(key: Any) -> str | int:
    if not _is_key(key):
        raise TypeError(f"expected a dictionary key of type str or int (of 60 bits), got {brief(key)}")
    checked: str | int = key
    return checked


def _known(name: str, table: Mapping[str, Any] | tuple[str, ...], what: str) -> str:
    if name in table:
        return name
    raise ModelFileError(
        f"the file names the {what} {brief(name)}, which this program does not know ({near_matches(name, table)}); "
        "if a newer version or an extension wrote the file, install or import that first, or give the value in "
        "custom_objects"
    )


def _element(value: Json, dtype: np.dtype[Any]) -> bool | int | float:
    """One number of an array, checked: NumPy would turn 300 into a uint8, and text into a float, in silence."""
    if dtype.kind == "b":
        return bool(_expect(bool, value))
    if dtype.kind == "f":
        if isinstance(value, str):
            return _NON_FINITE[value]
        return float(_expect(float if isinstance(value, float) else int, value))
    number = int(_expect(int, value))
    bounds = np.iinfo(dtype)
    if not bounds.min <= number <= bounds.max:
        raise ValueError(f"{brief(number)} does not fit {dtype.name}")
    return number


# ---------------------------------------------------------------------------------------------------- what is known


def _box_to_plain(space: spaces.Box) -> dict[str, Any]:
    plain: dict[str, Any] = {"low": space.low, "high": space.high}
    if space.dtype.kind == "i":  # an integer cannot be infinite, so gymnasium keeps what is unbounded beside
        plain |= {"bounded_below": space.bounded_below, "bounded_above": space.bounded_above}
    return plain


def box_from_plain(plain: dict[str, Any]) -> spaces.Box:
    low, high = _expect(np.ndarray, plain["low"]), _expect(np.ndarray, plain["high"])
    if low.dtype != high.dtype:
        raise ValueError(f"the bounds of a Box are {low.dtype} and {high.dtype}")
    space = spaces.Box(low, high, low.shape, low.dtype.type)
    for side in ("bounded_below", "bounded_above"):
        if side in plain:
            setattr(space, side, _expect(np.ndarray, plain[side]).astype(bool).reshape(low.shape))
    return space


def _discrete_to_plain(space: spaces.Discrete[Any]) -> dict[str, Any]:
    return {"n": int(space.n), "start": int(space.start), "dtype": np.dtype(space.dtype).name}


def discrete_from_plain(plain: dict[str, Any]) -> spaces.Discrete[Any]:
    dtype = np.dtype(_known(plain["dtype"], _ARRAY_TYPES, "array type"))
    chosen = {} if dtype == np.int64 else {"dtype": dtype.type}  # gymnasium before 1.2 knows only int64
    return spaces.Discrete(_expect(int, plain["n"]), start=_expect(int, plain["start"]), **chosen)  # type: ignore[call-overload]


def _multi_discrete_to_plain(space: spaces.MultiDiscrete[Any]) -> dict[str, Any]:
    return {"nvec": space.nvec, "start": space.start}


def multi_discrete_from_plain(plain: dict[str, Any]) -> spaces.MultiDiscrete[Any]:
    counts, start = _expect(np.ndarray, plain["nvec"]), _expect(np.ndarray, plain["start"])
    return spaces.MultiDiscrete(counts, dtype=counts.dtype.type, start=start)


def _multi_binary_to_plain(space: spaces.MultiBinary) -> int | list[int]:
    return [int(size) for size in space.n] if isinstance(space.n, tuple | list | np.ndarray) else int(space.n)


def multi_binary_from_plain(plain: int | list[int]) -> spaces.MultiBinary:
    sizes = [plain] if isinstance(plain, int) else _expect(list, plain)
    if len(sizes) > MAX_DIMENSIONS or not all(0 < _expect(int, size) < 2**48 for size in sizes):
        raise ValueError("a MultiBinary space of impossible shape")
    return spaces.MultiBinary(plain)


def dict_space_from_plain(parts: list[tuple[str, spaces.Space[Any]]]) -> spaces.Dict:
    named = {_expect(str, key): space for key, space in _expect(list, parts)}
    return spaces.Dict(OrderedDict(named))  # gymnasium sorts other dictionaries


def _linear_schedule_to_plain(schedule: LinearSchedule) -> list[float]:
    return [float(schedule.start), float(schedule.end), float(schedule.end_fraction)]


def _linear_schedule_from_plain(plain: list[float]) -> LinearSchedule:
    start, end, end_fraction = map(_number, _expect(list, plain))
    return LinearSchedule(start, end, end_fraction)


def _float_schedule_from_plain(plain: Any) -> FloatSchedule:
    if type(plain) not in _KIND_OF_TYPE:  # a class of the table is callable too, and no schedule
        raise TypeError(f"expected a schedule, got {type(plain).__name__}")
    return FloatSchedule(plain)


def _number(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return float(value)


def _register_values() -> None:
    register("Box", spaces.Box, _box_to_plain, box_from_plain)
    register("Discrete", spaces.Discrete, _discrete_to_plain, discrete_from_plain)
    register("MultiDiscrete", spaces.MultiDiscrete, _multi_discrete_to_plain, multi_discrete_from_plain)
    register("MultiBinary", spaces.MultiBinary, _multi_binary_to_plain, multi_binary_from_plain)
    register("Dict", spaces.Dict, lambda space: [list(item) for item in space.spaces.items()], dict_space_from_plain)
    register("Tuple", spaces.Tuple, lambda space: list(space.spaces), spaces.Tuple)
    register("device", torch.device, str, lambda name: torch.device(_expect(str, name)))
    register("path", type(Path()), str, lambda text: Path(_expect(str, text)))
    register("ConstantSchedule", ConstantSchedule, lambda it: float(it.val), lambda val: ConstantSchedule(_number(val)))
    register("FloatSchedule", FloatSchedule, lambda it: it.value_schedule, _float_schedule_from_plain)
    register("LinearSchedule", LinearSchedule, _linear_schedule_to_plain, _linear_schedule_from_plain)


_ACTIVATION_NAMES = "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid LogSoftmax"
_ACTIVATION_NAMES += " Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh"
_ACTIVATION_NAMES += " Tanhshrink"
_OPTIMIZER_NAMES = "Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop SGD"
ACTIVATIONS: dict[str, type[nn.Module]] = {name: getattr(nn, name) for name in _ACTIVATION_NAMES.split()}
OPTIMIZERS: dict[str, type] = {name: getattr(torch.optim, name) for name in _OPTIMIZER_NAMES.split()}

_register_values()
for _name, _class in {**ACTIVATIONS, **OPTIMIZERS}.items():
    register_class(_name, _class)
