"""Values that Proximo knows, made of what a pickle says: by exact (module, name) pairs, with Proximo's own classes.

The input is :mod:`proximo.files.restricted_pickle`'s inert data. Whatever is not in the tables here is
:class:`UnknownValue`, with a description for the person who must supply it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array
from proximo.errors import ModelFileError
from proximo.files.encoding import (
    ACTIVATIONS,
    MALFORMED,
    OPTIMIZERS,
    box_from_plain,
    decode,
    dict_space_from_plain,
    discrete_from_plain,
    multi_discrete_from_plain,
)
from proximo.files.restricted_pickle import Inert, Made, Name
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule
from proximo.functional.statistics import RunningMeanStd

MAX_DEPTH = 32
MAX_VALUES = 2**18


class UnknownValue(ModelFileError):
    """A pickled value that is code, or an object of a class that is not in the tables."""


def known_value(inert: Inert, makers: Mapping[Name, Callable[[Translator, Made], Any]] | None = None) -> Any:
    """The value that inert data describes; ``makers`` extend the table of what can be made."""
    return Translator(makers or {}).translate(inert)


class Translator:
    """One translation, with its budgets of depth and number; shared parts are translated once."""

    def __init__(self, makers: Mapping[Name, Callable[[Translator, Made], Any]]) -> None:
        self.makers = {**_MAKERS, **makers}
        self.depth = 0
        self.values_left = MAX_VALUES
        self.done: dict[int, Any] = {}

    def translate(self, inert: Inert) -> Any:
        if inert is None or isinstance(inert, bool | int | float | str | bytes):
            return inert
        if id(inert) in self.done:  # the inert tree outlives the translation, so ids are not used twice
            return self.done[id(inert)]
        self.values_left -= 1
        if self.depth >= MAX_DEPTH or self.values_left < 0:
            raise ModelFileError(f"a pickled value is nested deeper than {MAX_DEPTH} levels, or too large")
        self.depth += 1
        try:
            value = self._translate(inert)
        except MALFORMED as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"a pickled value is malformed: {str(error)[:200]}") from error
        finally:
            self.depth -= 1
        self.done[id(inert)] = value
        return value

    def _translate(self, inert: Inert) -> Any:
        match inert:
            case list():
                return [self.translate(item) for item in inert]
            case tuple():
                return tuple(self.translate(item) for item in inert)
            case dict():
                return {self.translate(key): self.translate(item) for key, item in inert.items()}
            case Name():
                return known_class(inert)
            case Made() if isinstance(inert.function, Name) and inert.function in self.makers:
                return self.makers[inert.function](self, inert)
        raise UnknownValue(describe(inert))

    def state(self, made: Made, *names: str) -> list[Any]:
        """Entries of an object's state, translated."""
        if not isinstance(made.state, dict):
            raise TypeError(f"{describe(made)} has no state")
        return [self.translate(made.state[name]) for name in names]


def describe(inert: Inert) -> str:
    """What a person would call it, in a few printable words."""
    match inert:
        case Name():
            return f"the class or function {ascii(str(inert))[1:-1]:.100}"
        case Made(function=Name(name="_make_function")) as made:
            return f"the function {ascii(_function_name(made))[1:-1]:.100}"
        case Made(function=Name() as name):
            kind = "an object of" if inert.new else "a call of"
            return f"{kind} {ascii(str(name))[1:-1]:.100}"
    return f"a pickled {type(inert).__name__}"


# ---------------------------------------------------------------------------------------------------------- classes


def _class_names() -> dict[Name, str]:
    """Which class of Proximo's (or of torch's) a name stands for: its bare name in Proximo's files."""
    table = {
        "stable_baselines3.common.policies": "ActorCriticPolicy ActorCriticCnnPolicy MultiInputActorCriticPolicy",
        "sb3_contrib.common.recurrent.policies": "RecurrentActorCriticPolicy RecurrentActorCriticCnnPolicy "
        "RecurrentMultiInputActorCriticPolicy",
        "sb3_contrib.common.maskable.policies": "MaskableActorCriticPolicy MaskableActorCriticCnnPolicy "
        "MaskableMultiInputActorCriticPolicy",
        "stable_baselines3.common.torch_layers": "FlattenExtractor NatureCNN CombinedExtractor",
        "stable_baselines3.common.sb2_compat.rmsprop_tf_like": "RMSpropTFLike",
    }
    pairs = {Name(module, name): name for module, names in table.items() for name in names.split()}
    pairs |= {Name(cls.__module__, name): name for name, cls in {**ACTIVATIONS, **OPTIMIZERS}.items()}
    buffers = {
        "stable_baselines3.common.buffers": "",
        "sb3_contrib.common.recurrent.buffers": "Recurrent",
        "sb3_contrib.common.maskable.buffers": "Maskable",
    }
    for module, prefix in buffers.items():  # one buffer of Proximo's serves all
        for name in ("RolloutBuffer", "DictRolloutBuffer"):
            pairs[Name(module, prefix + name)] = "RolloutBuffer"
    return pairs


CLASS_NAMES = _class_names()
# the names that Stable-Baselines3 knows Proximo's classes by
FOREIGN_NAMES = {bare: name for name, bare in CLASS_NAMES.items() if bare != "RolloutBuffer"}


def known_class(name: Name) -> type:
    if name not in CLASS_NAMES:
        raise UnknownValue(describe(name))
    cls: type = decode({"$": "class", "value": CLASS_NAMES[name]})
    return cls


def own_class(given: Any) -> Any:
    """The library's class for one of Stable-Baselines3's or sb3-contrib's that it knows; anything else as it is."""
    name = Name(getattr(given, "__module__", ""), getattr(given, "__qualname__", ""))
    return known_class(name) if isinstance(given, type) and name in CLASS_NAMES else given


# ------------------------------------------------------------------------------------------------------------ NumPy

_DTYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


def _dtype(translator: Translator, made: Made) -> np.dtype[Any]:
    code = made.arguments[0]
    order = made.state[1] if isinstance(made.state, tuple) else "="
    if code not in _DTYPES or order not in ("<", "|", "="):
        raise ValueError(f"an array of type {order!r:.20}{code!r:.20}; expected plain little-endian numbers")
    return np.dtype(code)


def _array(data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    """An array of bytes that the file holds, so that no shape can ask for more memory than it has."""
    if not isinstance(data, bytes) or not isinstance(dtype, np.dtype):
        raise TypeError("an array without bytes or type")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(type(size) is not int or size < 0 for size in sizes) or math.prod(sizes) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for an array of shape {sizes!s:.60} and type {dtype}")
    return np.frombuffer(data, dtype).reshape(sizes, order="F" if order in ("F", True) else "C").copy()


def _array_from_buffer(translator: Translator, made: Made) -> Array:
    return _array(*map(translator.translate, made.arguments))


def _array_reconstructed(translator: Translator, made: Made) -> Array:
    _, shape, dtype, is_fortran, data = translator.translate(made.state)
    return _array(data, dtype, shape, is_fortran)


def _scalar(translator: Translator, made: Made) -> Any:
    dtype, data = map(translator.translate, made.arguments)
    return _array(data, dtype, (), "C")[()]


# ----------------------------------------------------------------------------------------------------------- spaces


def _box(translator: Translator, made: Made) -> spaces.Box:
    sides = [side for side in ("bounded_below", "bounded_above") if side in made.state]
    names = ("low", "high", *sides)
    return box_from_plain(dict(zip(names, translator.state(made, *names), strict=True)))


def _discrete(translator: Translator, made: Made) -> spaces.Discrete[Any]:
    (count,) = translator.state(made, "n")
    start, dtype = (translator.translate(made.state.get(name)) for name in ("start", "dtype"))
    name = "int64" if dtype is None else np.dtype(dtype).name
    return discrete_from_plain({"n": int(count), "start": int(start or 0), "dtype": name})


def _multi_discrete(translator: Translator, made: Made) -> spaces.MultiDiscrete[Any]:
    (counts,) = translator.state(made, "nvec")
    start = translator.translate(made.state.get("start"))
    return multi_discrete_from_plain({"nvec": counts, "start": np.zeros_like(counts) if start is None else start})


def _multi_binary(translator: Translator, made: Made) -> spaces.MultiBinary:
    (count,) = translator.state(made, "n")
    return spaces.MultiBinary(count if isinstance(count, int) else [int(size) for size in count])


def _dict_space(translator: Translator, made: Made) -> spaces.Dict:
    (parts,) = translator.state(made, "spaces")
    return dict_space_from_plain(list(parts.items()))


def _queue(translator: Translator, made: Made) -> list[Any]:
    """A ``deque`` as a list; its length is limited elsewhere."""
    return [translator.translate(item) for part in (*made.arguments[:1], made.items) for item in part]


def _ordered_dict(translator: Translator, made: Made) -> dict[Any, Any]:
    pairs = translator.translate(made.arguments[0]) if made.arguments else []
    return {**dict(pairs), **translator.translate(made.entries)}


# -------------------------------------------------------------------------------------------------------- schedules


def _constant_schedule(translator: Translator, made: Made) -> ConstantSchedule:
    return ConstantSchedule(_number(*translator.state(made, "val")))


def _linear_schedule(translator: Translator, made: Made) -> LinearSchedule:
    return LinearSchedule(*map(_number, translator.state(made, "start", "end", "end_fraction")))


def _float_schedule(translator: Translator, made: Made) -> FloatSchedule:
    return _checked_schedule(*translator.state(made, "value_schedule"))


def _zoo_schedule(translator: Translator, made: Made) -> LinearSchedule:
    return LinearSchedule(_number(*translator.state(made, "initial_value")), 0.0, 1.0)


def _checked_schedule(value: Any) -> FloatSchedule:
    if not isinstance(value, ConstantSchedule | LinearSchedule | FloatSchedule):
        raise TypeError(f"a schedule of {type(value).__name__}")
    return FloatSchedule(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise TypeError(f"{value!r:.60} where a number is expected")
    return float(value)


def _closure(translator: Translator, made: Made) -> Any:
    """A function pickled with its code, of a kind whose meaning is known: then its free variables say it all.

    Before version 2.7 Stable-Baselines3 kept schedules as such functions. The code in the file is not looked at.
    """
    name = _function_name(made)
    if name in _CLOSURES:
        cells = [translator.translate(cell.arguments[0]) for cell in made.state[1]["__closure__"]]
        return _CLOSURES[name](*cells)
    raise UnknownValue(describe(made))


def _function_name(made: Made) -> str:
    """``module.qualified_name`` of a function that cloudpickle wrote by value; empty where it cannot be told."""
    match made.state:
        case (_, {"__module__": str() as module, "__qualname__": str() as name}):
            return f"{module}.{name}"
    return ""


_CLOSURES: dict[str, Callable[..., Any]] = {  # free variables come in alphabetical order
    "stable_baselines3.common.utils.constant_fn.<locals>.func": lambda val: ConstantSchedule(_number(val)),
    "stable_baselines3.common.utils.get_linear_fn.<locals>.func": lambda end, end_fraction, start: LinearSchedule(
        _number(start), _number(end), _number(end_fraction)
    ),
    "stable_baselines3.common.utils.get_schedule_fn.<locals>.<lambda>": _checked_schedule,
    **{
        f"{module}.linear_schedule.<locals>.func": lambda initial: LinearSchedule(_number(initial), 0.0, 1.0)
        for module in ("rl_zoo3.utils", "utils.utils")
    },
}


# ------------------------------------------------------------------------------------------------------- the tables


def _statistics(translator: Translator, made: Made) -> RunningMeanStd:
    mean, var, count = translator.state(made, "mean", "var", "count")
    statistics = RunningMeanStd()
    statistics.mean, statistics.var = np.asarray(mean, np.float64), np.asarray(var, np.float64)
    statistics.count = _number(count)
    return statistics


def _makers() -> dict[Name, Callable[[Translator, Made], Any]]:
    makers: dict[Name, Callable[[Translator, Made], Any]] = {
        Name("numpy", "dtype"): _dtype,
        Name("collections", "OrderedDict"): _ordered_dict,
        Name("collections", "deque"): _queue,
        Name("stable_baselines3.common.utils", "ConstantSchedule"): _constant_schedule,
        Name("stable_baselines3.common.utils", "LinearSchedule"): _linear_schedule,
        Name("stable_baselines3.common.utils", "FloatSchedule"): _float_schedule,
        Name("rl_zoo3.utils", "SimpleLinearSchedule"): _zoo_schedule,
        Name("stable_baselines3.common.running_mean_std", "RunningMeanStd"): _statistics,
    }
    for core in ("numpy._core", "numpy.core"):  # NumPy 2 and 1
        makers[Name(f"{core}.numeric", "_frombuffer")] = _array_from_buffer
        makers[Name(f"{core}.multiarray", "_reconstruct")] = _array_reconstructed
        makers[Name(f"{core}.multiarray", "scalar")] = _scalar
    for library in ("gymnasium", "gym"):  # Stable-Baselines3 before 2.0 had gym
        makers[Name(f"{library}.spaces.box", "Box")] = _box
        makers[Name(f"{library}.spaces.discrete", "Discrete")] = _discrete
        makers[Name(f"{library}.spaces.multi_discrete", "MultiDiscrete")] = _multi_discrete
        makers[Name(f"{library}.spaces.multi_binary", "MultiBinary")] = _multi_binary
        makers[Name(f"{library}.spaces.dict", "Dict")] = _dict_space
    for module in ("cloudpickle.cloudpickle", "cloudpickle.cloudpickle_fast"):
        makers[Name(module, "_make_function")] = _closure
        makers[Name(module, "_function_setstate")] = lambda translator, made: translator.translate(made.arguments[0])
    return makers


_MAKERS = _makers()
