"""Hyperparameters as JSON: plain values, spaces, schedules and known classes by bare name, never by import path.

What JSON has a form for keeps it. Anything else becomes ``{"$": kind, "value": …}``, where ``kind`` is looked up in
a table of this process; a file can only name what is already in the table, so decoding imports and runs nothing.

>>> encode({"net_arch": [64, 64], "clip_range_vf": None, "shape": (4,)})
{'net_arch': [64, 64], 'clip_range_vf': None, 'shape': {'$': 'tuple', 'value': [4]}}
>>> decode(encode(spaces.Discrete(3, start=1)))
Discrete(3, start=1)

A value with no safe form (a lambda, a class of the user) is not written; :func:`encode_fields` names it, and
:func:`decode_fields` asks the caller for it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from proximo.data import Array
from proximo.errors import ModelFileError, near_matches
from proximo.files.zips import Json
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule

MAX_DEPTH = 24  # levels of JSON; leaves room for the manifest around it
MAX_LISTED_ELEMENTS = 2**16  # of one array written out; larger ones belong in a group of tensors
MAX_TOTAL_ELEMENTS = 2**24  # of all arrays of one call together, so that a short text cannot ask for much memory
MAX_INTEGER_BITS = 1024

_TAG = "$"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ARRAY_TYPES: tuple[str, ...] = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ARRAY_TYPES += ("float16", "float32", "float64")
_MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Unsafe(TypeError):
    """A value that has no safe form in a file; the message describes it in a few words."""


# ----------------------------------------------------------------------------------------------------------- tables

_KIND_OF_TYPE: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_KINDS: dict[str, Callable[[Any], Any]] = {}
_CLASSES: dict[str, type] = {}
_NAME_OF_CLASS: dict[type, str] = {}
_BUILT_IN_KINDS = ("float", "tuple", "dict", "array", "scalar", "class")


def register(kind: str, of_type: type, to_plain: Callable[[Any], Any], from_plain: Callable[[Any], Any]) -> None:
    """Teach the encoding a type: ``to_plain`` gives something encodable, ``from_plain`` makes the value of it again.

    Only values of exactly this type are written so; a subclass may hold more than ``to_plain`` knows of.
    ``from_plain`` meets what a file says: it must check its input by raising the usual errors, and run nothing of it.
    """
    if kind in _BUILT_IN_KINDS or (kind in _KINDS and _KIND_OF_TYPE.get(of_type, ("", None))[0] != kind):
        raise ValueError(f"the kind {kind!r} is taken; choose another name for {of_type.__name__}")
    _KIND_OF_TYPE[of_type] = (kind, to_plain)
    _KINDS[kind] = from_plain


def register_class(name: str, cls: type) -> None:
    """Let files name a class (the class itself is the value, as in ``activation_fn=nn.Tanh``) by a bare name."""
    if _CLASSES.get(name, cls) is not cls:
        raise ValueError(f"the class name {name!r} is taken by {_CLASSES[name]}; choose another for {cls}")
    _CLASSES[name] = cls
    _NAME_OF_CLASS.setdefault(cls, name)


# --------------------------------------------------------------------------------------------------------- encoding


def encode(value: Any) -> Json:
    """The JSON of a value; :class:`Unsafe` if it, or a part of it, has none."""
    return _Encoder().encode(value, depth=0)


def encode_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Json], dict[str, str]]:
    """Encode what has a safe form; describe what the loading program must supply, by dotted name.

    >>> encode_fields({"n_steps": 128, "policy_kwargs": {"net_arch": [64], "features_extractor_class": Unsafe}})
    ({'n_steps': 128, 'policy_kwargs': {'net_arch': [64]}}, {'policy_kwargs.features_extractor_class': 'class Unsafe'})
    """
    encoder = _Encoder()
    encoded: dict[str, Json] = {}
    needs: dict[str, str] = {}
    for name, value in fields.items():
        encoder.encode_field(name, value, encoded, needs, path=name, depth=0)
    return encoded, needs


class _Encoder:
    """One pass of encoding, with its budget of array elements."""

    def __init__(self) -> None:
        self.elements_left = MAX_TOTAL_ELEMENTS

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
            return [self.encode(item, depth + 1) for item in value]
        if kind is tuple:
            return _tagged("tuple", [self.encode(item, depth + 2) for item in value])
        if kind is dict or kind is OrderedDict:
            return self._encode_dict(value, depth)
        return self._encode_object(value, depth)

    def _encode_dict(self, value: dict[Any, Any], depth: int) -> Json:
        if _is_plain_dict(value):
            return {key: self.encode(item, depth + 1) for key, item in value.items()}
        if not all(type(key) in (str, int) for key in value):
            raise Unsafe("dict with keys that are neither str nor int")
        return _tagged("dict", [[key, self.encode(item, depth + 3)] for key, item in value.items()])

    def _encode_object(self, value: Any, depth: int) -> Json:
        if isinstance(value, type):
            if value not in _NAME_OF_CLASS:
                raise Unsafe(f"class {value.__qualname__}")
            return _tagged("class", _NAME_OF_CLASS[value])
        if isinstance(value, np.generic):
            return _tagged("scalar", self._encode_array(np.asarray(value)))
        if type(value) is np.ndarray:
            return _tagged("array", self._encode_array(value))
        if type(value) not in _KIND_OF_TYPE:
            raise Unsafe(_described(value))
        kind, to_plain = _KIND_OF_TYPE[type(value)]
        return _tagged(kind, self.encode(to_plain(value), depth + 1))

    def _encode_array(self, array: Array) -> Json:
        """Type, shape and values in C order; only the first value when all are the same, bit for bit."""
        name = array.dtype.name
        if name not in _ARRAY_TYPES or not array.dtype.isnative:
            raise Unsafe(f"array of {array.dtype}")
        flat = np.ascontiguousarray(array).reshape(-1)
        bits = flat.view(f"u{array.dtype.itemsize}")
        uniform = flat.size > 0 and bool((bits == bits[0]).all())
        if flat.size > (self.elements_left if uniform else MAX_LISTED_ELEMENTS):
            raise Unsafe(f"array of {flat.size} {name} values, too many for the manifest")
        self.elements_left -= flat.size
        values = (flat[:1] if uniform else flat).tolist()
        if array.dtype.kind == "f":
            values = [number if math.isfinite(number) else _non_finite_name(number) for number in values]
        shape: list[Json] = [int(size) for size in array.shape]
        return {"dtype": name, "shape": shape, "fill" if uniform else "values": values[0] if uniform else values}

    def encode_field(
        self, key: str, value: Any, into: dict[str, Json], needs: dict[str, str], path: str, depth: int
    ) -> None:
        """Put the encoding of a value into ``into[key]``, or describe under ``path`` what has none.

        Within plain dictionaries only the unsafe parts are left out, so that the caller need not repeat the rest.
        """
        if depth < MAX_DEPTH and type(value) in (dict, OrderedDict) and _has_dotted_names(value):
            parts: dict[str, Json] = {}
            for part, item in value.items():
                self.encode_field(part, item, parts, needs, f"{path}.{part}", depth + 1)
            into[key] = parts
            return
        try:
            into[key] = self.encode(value, depth + 1)
        except Unsafe as unsafe:
            needs[path] = str(unsafe)


def _tagged(kind: str, value: Json) -> Json:
    return {_TAG: kind, "value": value}


def _is_plain_dict(value: dict[Any, Any]) -> bool:
    return _TAG not in value and all(type(key) is str for key in value)


def _has_dotted_names(value: dict[Any, Any]) -> bool:
    """Whether the entries of a dictionary can be named ``path.key`` without doubt."""
    return _is_plain_dict(value) and not any("." in key for key in value)


def _non_finite_name(number: float) -> str:
    return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")


def _described(value: Any) -> str:
    """What a value is, in the words of the error that will ask for it."""
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return f"function {name}"
    return f"object of class {type(value).__qualname__}"


# --------------------------------------------------------------------------------------------------------- decoding


def decode(encoded: Json) -> Any:
    """The value of :func:`encode`'s JSON; :class:`~proximo.errors.ModelFileError` for anything else."""
    return _Decoder().decode(encoded)


def decode_fields(
    encoded: Mapping[str, Json],
    needs: Mapping[str, str],
    custom_objects: Mapping[str, Any] | None = None,
    loader: str = "PPO.load",
) -> dict[str, Any]:
    """The fields of :func:`encode_fields`, with what could not be written taken from ``custom_objects``.

    A key there is the name of a field, which it replaces as a whole (also one that was written, which is then not
    decoded at all), or a dotted name for one entry of a dictionary. Keys that the file does not know are ignored, as
    Stable-Baselines3 does. If something is still missing, one error lists it all and shows the call.
    """
    supplied = _checked_custom_objects(custom_objects)
    _check_needs(encoded, needs)
    _check_supplied(needs, supplied, loader)
    decoder = _Decoder()
    fields = {name: decoder.decode(value) for name, value in encoded.items() if name not in supplied}
    return supply_fields({name: fields.get(name) for name in encoded}, needs, supplied, loader)


def supply_fields(
    fields: Mapping[str, Any], needs: Mapping[str, str], custom_objects: Mapping[str, Any] | None, loader: str
) -> dict[str, Any]:
    """Fields with what the caller supplies in their place, as :func:`decode_fields` says."""
    supplied = _checked_custom_objects(custom_objects)
    _check_supplied(needs, supplied, loader)
    names = [*fields, *(path for path in needs if "." not in path)]
    complete = {name: supplied[name] if name in supplied else fields[name] for name in names}
    for path, value in supplied.items():
        name, *parts = path.split(".")
        if parts and name in complete and name not in supplied:
            _put(complete[name], parts, value, path)
    return complete


def _check_supplied(needs: Mapping[str, str], supplied: Mapping[str, Any], loader: str) -> None:
    missing = {
        path: what for path, what in needs.items() if path not in supplied and path.split(".")[0] not in supplied
    }
    if missing:
        raise ModelFileError(_missing_message(missing, loader))


def class_name(cls: type) -> str | None:
    """The bare name by which files know a class; None for one that is not registered."""
    return _NAME_OF_CLASS.get(cls)


class _Decoder:
    """One pass of decoding, with its budget of array elements."""

    def __init__(self) -> None:
        self.elements_left = MAX_TOTAL_ELEMENTS

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
        except _MALFORMED as error:
            raise ModelFileError(
                f"a value of kind {kind!r:.60} in the file is malformed: {str(error)[:200]}"
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
        return _KINDS[_known(kind, _KINDS, "kind of value")](self.decode(value, depth + 1))

    def _decode_array(self, plain: dict[str, Json]) -> Array:
        dtype = np.dtype(_known(_expect(str, plain["dtype"]), _ARRAY_TYPES, "array type"))
        shape = tuple(_expect(int, size) for size in _expect(list, plain["shape"]))
        size = math.prod(shape)
        if len(shape) > 32 or min(shape, default=0) < 0:
            raise ValueError(f"shape {shape} is no shape of an array")
        self.elements_left -= size
        if self.elements_left < 0:
            raise ValueError(f"an array of {size} elements exceeds the {MAX_TOTAL_ELEMENTS} that a file may ask for")
        if plain.keys() == {"dtype", "shape", "fill"}:
            return np.full(shape, _element(plain["fill"], dtype), dtype)
        values = [_element(value, dtype) for value in _expect(list, plain["values"])]
        return np.array(values, dtype).reshape(shape)


def _expect(expected: type, value: Any) -> Any:
    if type(value) is not expected:
        raise TypeError(f"expected {expected.__name__}, got {type(value).__name__}")
    return value


def _dict_key(key: Json) -> str | int:
    if type(key) is str or type(key) is int:
        return key
    raise TypeError(f"expected a dictionary key of type str or int, got {type(key).__name__}")


def _known(name: str, table: Mapping[str, Any] | tuple[str, ...], what: str) -> str:
    if name in table:
        return name
    raise ModelFileError(
        f"the file names the {what} {name!r:.60}, which this program does not know ({near_matches(name[:60], table)}); "
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
        raise ValueError(f"{number} does not fit {dtype.name}")
    return number


def _checked_custom_objects(custom_objects: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if custom_objects is None:
        return {}
    if not isinstance(custom_objects, Mapping) or not all(isinstance(key, str) for key in custom_objects):
        raise TypeError(
            "custom_objects maps names to values, such as {'learning_rate': 3e-4}; "
            f"got {type(custom_objects).__name__}"
        )
    return custom_objects


def _check_needs(encoded: Mapping[str, Json], needs: Mapping[str, str]) -> None:
    if not isinstance(encoded, Mapping) or not isinstance(needs, Mapping):
        raise ModelFileError("the file's tables of values are malformed; it was changed or is damaged")
    if not all(isinstance(text, str) for pair in needs.items() for text in pair):
        raise ModelFileError("the file's list of values to supply is malformed; it was changed or is damaged")


def _missing_message(missing: Mapping[str, str], loader: str) -> str:
    """Texts of the file are shown escaped and cut, as they may be anything."""
    listed = "; ".join(f"{ascii(path)[1:-1]:.80} ({ascii(what)[1:-1]:.80})" for path, what in missing.items())
    example = ", ".join(f'"{ascii(path)[1:-1]:.80}": ...' for path in missing)
    return (
        f"the model was saved with values that a file cannot hold safely: {listed:.2000}; "
        f"supply them from your code: {loader}(path, custom_objects={{{example:.2000}}})"
    )


def _put(field: Any, parts: list[str], value: Any, path: str) -> None:
    """Set one entry of nested dictionaries."""
    for part in parts[:-1]:
        field = field.get(part) if isinstance(field, dict) else None
    if not isinstance(field, dict):
        raise ModelFileError(f"{path!r} names an entry of a dictionary, and the file holds no dictionary there")
    field[parts[-1]] = value


# ---------------------------------------------------------------------------------------------------- what is known


def _box_to_plain(space: spaces.Box) -> dict[str, Any]:
    plain: dict[str, Any] = {"low": space.low, "high": space.high}
    if space.dtype.kind == "i":  # an integer cannot be infinite, so gymnasium keeps what is unbounded beside
        plain |= {"bounded_below": space.bounded_below, "bounded_above": space.bounded_above}
    return plain


def _box_from_plain(plain: dict[str, Any]) -> spaces.Box:
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


def _discrete_from_plain(plain: dict[str, Any]) -> spaces.Discrete[Any]:
    dtype = np.dtype(_known(plain["dtype"], _ARRAY_TYPES, "array type"))
    chosen = {} if dtype == np.int64 else {"dtype": dtype.type}  # gymnasium before 1.2 knows only int64
    return spaces.Discrete(_expect(int, plain["n"]), start=_expect(int, plain["start"]), **chosen)  # type: ignore[call-overload]


def _multi_discrete_to_plain(space: spaces.MultiDiscrete[Any]) -> dict[str, Any]:
    return {"nvec": space.nvec, "start": space.start}


def _multi_discrete_from_plain(plain: dict[str, Any]) -> spaces.MultiDiscrete[Any]:
    counts, start = _expect(np.ndarray, plain["nvec"]), _expect(np.ndarray, plain["start"])
    return spaces.MultiDiscrete(counts, dtype=counts.dtype.type, start=start)


def _multi_binary_to_plain(space: spaces.MultiBinary) -> int | list[int]:
    return [int(size) for size in space.n] if isinstance(space.n, tuple | list | np.ndarray) else int(space.n)


def _dict_space_from_plain(parts: list[tuple[str, spaces.Space[Any]]]) -> spaces.Dict:
    return spaces.Dict(OrderedDict(_expect(list, parts)))  # an ordered dictionary is not sorted anew


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
    return value


def _register_values() -> None:
    register("Box", spaces.Box, _box_to_plain, _box_from_plain)
    register("Discrete", spaces.Discrete, _discrete_to_plain, _discrete_from_plain)
    register("MultiDiscrete", spaces.MultiDiscrete, _multi_discrete_to_plain, _multi_discrete_from_plain)
    register("MultiBinary", spaces.MultiBinary, _multi_binary_to_plain, spaces.MultiBinary)
    register("Dict", spaces.Dict, lambda space: [list(item) for item in space.spaces.items()], _dict_space_from_plain)
    register("Tuple", spaces.Tuple, lambda space: list(space.spaces), spaces.Tuple)
    register("device", torch.device, str, lambda name: torch.device(_expect(str, name)))
    register("path", type(Path()), str, lambda text: Path(_expect(str, text)))
    register("ConstantSchedule", ConstantSchedule, lambda it: float(it.val), lambda val: ConstantSchedule(_number(val)))
    register("FloatSchedule", FloatSchedule, lambda it: it.value_schedule, _float_schedule_from_plain)
    register("LinearSchedule", LinearSchedule, _linear_schedule_to_plain, _linear_schedule_from_plain)


_ACTIVATIONS = "CELU ELU GELU Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU ReLU ReLU6 SELU SiLU Sigmoid"
_ACTIVATIONS += " Softplus Softsign Tanh Tanhshrink"
_OPTIMIZERS = "Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop SGD"

_register_values()
for _name in _ACTIVATIONS.split():
    register_class(_name, getattr(nn, _name))
for _name in _OPTIMIZERS.split():
    register_class(_name, getattr(torch.optim, _name))
