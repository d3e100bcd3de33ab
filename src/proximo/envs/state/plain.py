"""Copies of values that a file can hold without pickling, and the states of random generators in that form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Any

import numpy as np
import torch

from proximo.errors import EnvironmentStateError
from proximo.files.encoding import Unsafe, decode, encode
from proximo.files.plain_text import brief
from proximo.functional.spaces import Space

_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def plain_copy(value: Any, name: str) -> Any:
    """A copy of ``value``, which must have a form in files; an error says by ``name`` which part has none.

    >>> plain_copy({"seeds": (1, object())}, "state")
    Traceback (most recent call last):
    proximo.errors.EnvironmentStateError: state['seeds'][1] is an object of class object; a state is made of plain \
values: numbers, strings, None, arrays of numbers, lists, tuples and dictionaries
    """
    tensors: dict[str, torch.Tensor] = {}
    try:
        return decode(encode(value, tensors), tensors)
    except Unsafe as unsafe:
        raise EnvironmentStateError(
            f"{name}{unsafe.where} is {_with_article(str(unsafe))}; a state is made of plain values: numbers, strings, "
            "None, arrays of numbers, lists, tuples and dictionaries"
        ) from None


def _with_article(what: str) -> str:
    return f"{'an' if what[0] in 'aeio' else 'a'} {what}"


def generator_state(generator: np.random.Generator | None, name: str) -> dict[str, Any] | None:
    """Where a NumPy generator stands; None of one that is not made yet."""
    if generator is None:
        return None
    if not isinstance(generator, np.random.Generator):
        raise EnvironmentStateError(f"{name} is {type(generator).__name__}, expected a numpy.random.Generator")
    state: dict[str, Any] = plain_copy(generator.bit_generator.state, name)
    return state


def generator_at(state: dict[str, Any] | None, generator: np.random.Generator | None) -> np.random.Generator | None:
    """``generator`` itself, put where ``state`` says, or a new one if it is of another kind."""
    if state is None:
        return None
    kind = checked_generator_state(state)["bit_generator"]
    if generator is None or type(generator.bit_generator).__name__ != kind:
        generator = np.random.Generator(getattr(np.random, kind)())
    generator.bit_generator.state = state
    return generator


def checked_generator_state(state: Any) -> dict[str, Any]:
    """A state for NumPy, which reads memory at the places that it finds in one without looking."""
    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in _BIT_GENERATORS:
        raise EnvironmentStateError(f"unknown random generator {brief(kind)}; known are {', '.join(_BIT_GENERATORS)}")
    checked: dict[str, Any] = state
    if kind == "MT19937":
        _check_place(checked["state"]["pos"], 624)
    elif kind == "Philox":
        _check_place(checked["buffer_pos"], 4)
    return checked


def _check_place(place: Any, length: int) -> None:
    if not 0 <= index(place) <= length:
        raise EnvironmentStateError(f"the state of a random generator points outside its {length} numbers")


def space_states(space: Space, name: str) -> list[dict[str, Any] | None]:
    """Where the generators of a space and of its parts stand."""
    return [generator_state(part._np_random, name) for part in _all_parts(space)]


def set_space_states(space: Space, states: list[dict[str, Any] | None]) -> None:
    for part, state in zip(_all_parts(space), states, strict=True):
        part._np_random = generator_at(state, part._np_random)


def join_rows(values: Sequence[Any]) -> Any:
    """Rows of several processes one after the other: lists, arrays, or dictionaries of these.

    >>> join_rows([{"a": [1, 2]}, {"a": [3]}])
    {'a': [1, 2, 3]}
    """
    first = values[0]
    if isinstance(first, dict):
        return {key: join_rows([value[key] for value in values]) for key in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(values)
    return [row for value in values for row in value]


def take_rows(value: Any, rows: slice) -> Any:
    """The rows of one process, of what :func:`join_rows` gave."""
    return {key: take_rows(part, rows) for key, part in value.items()} if isinstance(value, dict) else value[rows]


def _all_parts(space: Any) -> Iterator[Any]:
    yield space
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from _all_parts(part)
