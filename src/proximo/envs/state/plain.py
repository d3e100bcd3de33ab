"""Plain data: what a file can hold without pickling, and the states of random generators in that form.

Plain are None, booleans, numbers, strings, arrays of numbers, and lists and string-keyed dictionaries of these. Two
more kinds are written in these terms, so that a value comes back with its type: a tuple is ``{"__tuple__": [...]}``,
and a NumPy scalar an array without axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from proximo.errors import EnvironmentStateError
from proximo.functional.spaces import Space

_TUPLE = "__tuple__"
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def to_plain(value: Any, name: str) -> Any:
    """A copy of ``value`` in plain data; ``name`` says in an error where it was found.

    >>> to_plain((1, [2.5, None]), "state")
    {'__tuple__': [1, [2.5, None]]}
    """
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biuf":
            raise EnvironmentStateError(f"{name} is an array of {value.dtype}; only arrays of numbers are plain data")
        return np.array(value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [to_plain(item, f"{name}[{index}]") for index, item in enumerate(value)]
    if type(value) is tuple:
        return {_TUPLE: [to_plain(item, f"{name}[{index}]") for index, item in enumerate(value)]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: to_plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    what = "a dictionary with keys that are no strings" if isinstance(value, dict) else type(value).__name__
    raise EnvironmentStateError(
        f"{name} is {what}; plain data is made of numbers, strings, None, arrays of numbers, lists, tuples and "
        "string-keyed dictionaries"
    )


def from_plain(plain: Any) -> Any:
    """A copy of the value that :func:`to_plain` was given.

    >>> from_plain({"__tuple__": [1, np.array(2.5)]})
    (1, np.float64(2.5))
    """
    if isinstance(plain, np.ndarray):
        return plain.copy() if plain.ndim else plain[()]
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    if isinstance(plain, dict):
        if plain.keys() == {_TUPLE}:
            return tuple(from_plain(item) for item in plain[_TUPLE])
        return {key: from_plain(item) for key, item in plain.items()}
    return plain


def generator_state(generator: np.random.Generator | None, name: str) -> dict[str, Any] | None:
    """Where a NumPy generator stands; None of one that is not made yet."""
    if generator is None:
        return None
    if not isinstance(generator, np.random.Generator):
        raise EnvironmentStateError(f"{name} is {type(generator).__name__}, expected a numpy.random.Generator")
    state: dict[str, Any] = to_plain(generator.bit_generator.state, name)
    return state


def generator_at(state: dict[str, Any] | None, generator: np.random.Generator | None) -> np.random.Generator | None:
    """``generator`` itself, put where ``state`` says, or a new one if it is of another kind."""
    if state is None:
        return None
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise EnvironmentStateError(f"unknown random generator {kind!r}; known are {', '.join(_BIT_GENERATORS)}")
    if generator is None or type(generator.bit_generator).__name__ != kind:
        generator = np.random.Generator(getattr(np.random, kind)())
    generator.bit_generator.state = from_plain(state)
    return generator


def space_states(space: Space, name: str) -> list[dict[str, Any] | None]:
    """Where the generators of a space and of its parts stand."""
    return [generator_state(part._np_random, name) for part in _all_parts(space)]


def set_space_states(space: Space, states: list[dict[str, Any] | None]) -> None:
    for part, state in zip(_all_parts(space), states, strict=True):
        part._np_random = generator_at(state, part._np_random)


def _all_parts(space: Any) -> Iterator[Any]:
    yield space
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from _all_parts(part)
