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
from proximo.files.budgets import Budgets
from proximo.files.encoding import (
    ACTIVATIONS,
    MALFORMED,
    MAX_DIMENSIONS,
    OPTIMIZERS,
    SPACE_BYTES,
    box_from_plain,
    decode,
    dict_space_from_plain,
    discrete_from_plain,
    multi_binary_from_plain,
    multi_discrete_from_plain,
)
from proximo.files.plain_text import brief, printable
from proximo.files.restricted_pickle import Inert, Made, Name, OpaqueKey
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule
from proximo.functional.statistics import RunningMeanStd

MAX_DEPTH = 32

_VALUE_BYTES, _ENTRY_BYTES = 64, 16  # of Python's objects, and of their places in lists and dictionaries


class UnknownValue(ModelFileError):
    """A pickled value that is code, or an object of a class that is not in the tables."""


def known_value(
    inert: Inert,
    budgets: Budgets | None = None,
    makers: Mapping[Name, Callable[[Translator, Made], Any]] | None = None,
) -> Any:
    """The value that inert data describes; ``makers`` extend the table of what can be made."""
    return Translator(budgets or Budgets(), makers or {}).translate(inert)


class Translator:
    """One translation, within the budgets of its file.

    What a pickle shares is translated once but paid for each time, so that whoever walks, copies or prints the value
    afterwards reads no more than the budget allows.
    """

    def __init__(self, budgets: Budgets, makers: Mapping[Name, Callable[[Translator, Made], Any]]) -> None:
        self.budgets = budgets
        self.makers = {**_MAKERS, **makers}
        self.depth = 0
        self.done: dict[int, tuple[Any, int]] = {}  # by identity: the value, and its bytes

    def translate(self, inert: Inert) -> Any:
        if inert is None or isinstance(inert, bool | int | float | str | bytes):
            self.budgets.make(_VALUE_BYTES + (len(inert) if isinstance(inert, str | bytes) else 0))
            return inert
        if id(inert) in self.done:  # the inert tree outlives the translation, so ids are not used twice
            value, cost = self.done[id(inert)]
            self.budgets.make(cost)
            return value
        if self.depth >= MAX_DEPTH:
            raise ModelFileError(f"a pickled value is nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        before = self.budgets.made_bytes
        self.budgets.work()
        self.budgets.make(_VALUE_BYTES)
        try:
            value = self._translate(inert)
        except MALFORMED as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"a pickled value is malformed: {printable(str(error))}") from error
        finally:
            self.depth -= 1
        self.done[id(inert)] = (value, before - self.budgets.made_bytes)
        return value

    def all_of(self, items: Inert) -> list[Any]:
        """The values of a list or tuple."""
        if not isinstance(items, list | tuple):
            raise TypeError(f"{brief(items)} where a list is expected")
        self.budgets.make(_ENTRY_BYTES * len(items))
        return [self.translate(item) for item in items]

    def _translate(self, inert: Inert) -> Any:
        match inert:
            case list():
                return self.all_of(inert)
            case tuple():
                return tuple(self.all_of(inert))
            case dict():
                return dict(zip(self.all_of(list(inert)), self.all_of(list(inert.values())), strict=True))
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
        case OpaqueKey():
            return "a dictionary with keys other than short texts and numbers"
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
    code, order = made.arguments[0], "="
    if isinstance(made.state, tuple):
        order = made.state[1]
    if not isinstance(code, str) or code not in _DTYPES or not isinstance(order, str) or order not in ("<", "|", "="):
        raise ValueError(f"an array of type {brief(order)} {brief(code)}; expected plain little-endian numbers")
    return np.dtype(code)


def _array(translator: Translator, data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    """An array of bytes that the file holds, so that no shape can ask for more memory than it has."""
    if not isinstance(data, bytes) or not isinstance(dtype, np.dtype):
        raise TypeError("an array without bytes or type")
    sizes = [shape] if isinstance(shape, int) else shape
    if not isinstance(sizes, list | tuple) or len(sizes) > MAX_DIMENSIONS:
        raise TypeError("an array without a shape, or of too many dimensions")
    if any(type(size) is not int or not 0 <= size < 2**48 for size in sizes):
        raise ValueError("an array of impossible shape")
    if math.prod(sizes) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for an array of shape {tuple(sizes)} and type {dtype}")
    if dtype == np.bool_ and data.translate(None, b"\x00\x01"):
        raise ValueError("truth values with bytes other than 0 and 1")
    is_fortran = order is True or (isinstance(order, str) and order == "F")
    translator.budgets.make(len(data))
    return np.frombuffer(data, dtype).reshape(sizes, order="F" if is_fortran else "C").copy()


def _array_from_buffer(translator: Translator, made: Made) -> Array:
    data, dtype, shape, order = translator.all_of(made.arguments)
    return _array(translator, data, dtype, shape, order)


def _array_reconstructed(translator: Translator, made: Made) -> Array:
    _, shape, dtype, is_fortran, data = translator.translate(made.state)
    return _array(translator, data, dtype, shape, is_fortran)


def _scalar(translator: Translator, made: Made) -> Any:
    dtype, data = translator.all_of(made.arguments)
    return _array(translator, data, dtype, (), "C")[()]


# ----------------------------------------------------------------------------------------------------------- spaces


def _box(translator: Translator, made: Made) -> spaces.Box:
    names = ["low", "high"]
    if isinstance(made.state, dict):
        names += [side for side in ("bounded_below", "bounded_above") if side in made.state]
    plain = dict(zip(names, translator.state(made, *names), strict=True))
    translator.budgets.make(SPACE_BYTES + sum(4 * np.asarray(part).nbytes for part in plain.values()))
    return box_from_plain(plain)


def _discrete(translator: Translator, made: Made) -> spaces.Discrete[Any]:
    translator.budgets.make(SPACE_BYTES)
    (count,) = translator.state(made, "n")
    start, dtype = (translator.translate(made.state.get(name)) for name in ("start", "dtype"))
    if dtype is not None and not isinstance(dtype, np.dtype):
        raise TypeError(f"{brief(dtype)} where a type of numbers is expected")
    name = "int64" if dtype is None else dtype.name
    return discrete_from_plain({"n": _integer(count), "start": _integer(start or 0), "dtype": name})


def _multi_discrete(translator: Translator, made: Made) -> spaces.MultiDiscrete[Any]:
    translator.budgets.make(SPACE_BYTES)
    (counts,) = translator.state(made, "nvec")
    if not isinstance(counts, np.ndarray):
        raise TypeError(f"{brief(counts)} where an array is expected")
    start = translator.translate(made.state.get("start"))
    return multi_discrete_from_plain({"nvec": counts, "start": np.zeros_like(counts) if start is None else start})


def _multi_binary(translator: Translator, made: Made) -> spaces.MultiBinary:
    translator.budgets.make(SPACE_BYTES)
    (count,) = translator.state(made, "n")
    if isinstance(count, np.ndarray):
        count = count.reshape(-1)[: MAX_DIMENSIONS + 1].tolist()
    return multi_binary_from_plain([_integer(size) for size in count] if isinstance(count, list | tuple) else count)


def _dict_space(translator: Translator, made: Made) -> spaces.Dict:
    translator.budgets.make(SPACE_BYTES)
    (parts,) = translator.state(made, "spaces")
    if not isinstance(parts, dict):
        raise TypeError(f"{brief(parts)} where a table of spaces is expected")
    return dict_space_from_plain(list(parts.items()))


def _queue(translator: Translator, made: Made) -> list[Any]:
    """A ``deque`` as a list; its length is limited elsewhere."""
    return [item for part in (*made.arguments[:1], made.items) for item in translator.all_of(part)]


def _ordered_dict(translator: Translator, made: Made) -> dict[Any, Any]:
    pairs = translator.translate(made.arguments[0]) if made.arguments else []
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError("a table that is no list of pairs")
    if not all(isinstance(key, str) for key, _ in pairs):
        raise TypeError("a table whose keys are no texts")
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
        raise TypeError(f"{brief(value)} where a number is expected")
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{brief(value)} where a whole number is expected")
    return int(value)


def _closure(translator: Translator, made: Made) -> Any:
    """A function pickled with its code, of a kind whose meaning is known: then its free variables say it all.

    Before version 2.7 Stable-Baselines3 kept schedules as such functions. The code in the file is not looked at.
    """
    name = _function_name(made)
    if name in _CLOSURES:
        cells = made.state[1]["__closure__"]
        if not isinstance(cells, tuple) or len(cells) > 3:
            raise TypeError("a function of other free variables than its kind has")
        return _CLOSURES[name](*[translator.translate(cell.arguments[0]) for cell in cells])
    raise UnknownValue(describe(made))


def _function_name(made: Made) -> str:
    """``module.qualified_name`` of a function that cloudpickle wrote by value; empty where it cannot be told."""
    match made.state:
        case (_, {"__module__": str() as module, "__qualname__": str() as name}) if len(module) + len(name) <= 1000:
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
    if not all(isinstance(part, int | float | np.generic | np.ndarray) for part in (mean, var)):
        raise TypeError("statistics that are no numbers")
    translator.budgets.make(8 * (np.size(mean) + np.size(var)))
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
