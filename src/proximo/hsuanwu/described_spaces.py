"""Spaces in the forms that configurations write them: a plain dict, a node of a configuration, or gymnasium's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from proximo.errors import near_matches
from proximo.functional.spaces import Space

SpaceLike: TypeAlias = Space | Mapping[str, Any]  # an OmegaConf DictConfig is a Mapping

OBSERVATION_KEYS = ("shape",)
ACTION_KEYS = ("shape", "type", "range")
ACTION_TYPES = ("Discrete", "Box", "MultiBinary")


def plain(value: Any) -> Any:
    """A configuration as dictionaries and lists; reading a DictConfig resolves its interpolations.

    >>> plain({"shape": (3, 64, 64)})
    {'shape': [3, 64, 64]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(part) for part in value]
    return value


def to_observation_space(given: SpaceLike) -> spaces.Box:
    """``{"shape": …}`` with three dimensions means images of bytes, channels first; otherwise real numbers.

    >>> to_observation_space({"shape": (3, 64, 64)})
    Box(0, 255, (3, 64, 64), uint8)
    >>> to_observation_space({"form": (4,)})
    Traceback (most recent call last):
    ValueError: observation_space lacks 'shape' and has the unknown key 'form'; expected the keys 'shape'
    """
    if isinstance(given, spaces.Box):
        return given
    described = _described("observation_space", given, OBSERVATION_KEYS)
    shape = _shape("observation_space", described["shape"])
    return observation_box(shape, np.uint8 if len(shape) == 3 else np.float32)


def observation_box(shape: tuple[int, ...], dtype: type[np.uint8 | np.float32]) -> spaces.Box:
    """The Box of observations of a shape: bytes for three dimensions, else floats without bounds."""
    if dtype is np.uint8:
        return spaces.Box(0, 255, shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def to_action_space(given: SpaceLike) -> spaces.Discrete | spaces.Box | spaces.MultiBinary:
    """``{"shape": (n,), "type": "Discrete", "range": [0, n - 1]}``, or ``"Box"`` with its shape and ``[low, high]``.

    >>> to_action_space({"shape": (3,), "type": "Discrete", "range": [0, 2]})
    Discrete(3)
    """
    if isinstance(given, spaces.Discrete | spaces.Box | spaces.MultiBinary):
        return given
    described = _described("action_space", given, ACTION_KEYS)
    return make_action_space(described["type"], _shape("action_space", described["shape"]), described["range"])


def make_action_space(
    kind: str, shape: tuple[int, ...], bounds: Any = None
) -> spaces.Discrete | spaces.Box | spaces.MultiBinary:
    """The space that type, shape and range of actions describe; without a range it has no bounds."""
    if kind not in ACTION_TYPES:
        raise ValueError(f"the type of the actions is {kind!r}; {near_matches(str(kind), ACTION_TYPES)}")
    if kind == "Box":
        low, high = (-np.inf, np.inf) if bounds is None else _bounds(bounds, shape)
        return spaces.Box(low, high, shape, np.float32)
    if len(shape) != 1:
        raise ValueError(f"the shape of {kind} actions is {shape}; expected (n,), n being their number")
    expected = [0, shape[0] - 1] if kind == "Discrete" else [0, 1]
    if bounds is not None and list(bounds) != expected:
        raise ValueError(f"the range of {kind} actions of shape {shape} is {bounds}; expected {expected}")
    return spaces.Discrete(shape[0]) if kind == "Discrete" else spaces.MultiBinary(shape[0])


def describe_action_space(space: Space) -> dict[str, Any]:
    """Type, shape and range of an action space.

    >>> describe_action_space(spaces.Discrete(3))
    {'shape': (3,), 'type': 'Discrete', 'range': [0, 2]}
    """
    space = to_action_space(space)
    match space:
        case spaces.Discrete():
            return {"shape": (int(space.n),), "type": "Discrete", "range": [0, int(space.n) - 1]}
        case spaces.MultiBinary():
            return {"shape": space.shape, "type": "MultiBinary", "range": [0, 1]}
    return {"shape": space.shape, "type": "Box", "range": [space.low.tolist(), space.high.tolist()]}


def _described(name: str, given: Any, keys: Sequence[str]) -> dict[str, Any]:
    if not isinstance(given, Mapping) or isinstance(given, spaces.Dict):
        kinds = "Box" if name == "observation_space" else "Discrete, Box or MultiBinary space"
        raise TypeError(
            f"{name} is {given!r:.120}; expected a gymnasium {kinds}, or a dict with the keys "
            f"{', '.join(map(repr, keys))}"
        )
    described = plain(given)
    faults = []
    if missing := [key for key in keys if key not in described]:
        faults.append(f"lacks {', '.join(map(repr, missing))}")
    if unknown := [key for key in described if key not in keys]:
        faults.append(f"has the unknown key {', '.join(map(repr, unknown))}")
    if faults:
        raise ValueError(f"{name} {' and '.join(faults)}; expected the keys {', '.join(map(repr, keys))}")
    return described


def _shape(name: str, given: Any) -> tuple[int, ...]:
    sizes = given if isinstance(given, list | tuple) else [given]
    # numpy's whole numbers too: env.action_space.n is one
    if not sizes or not all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes
    ):
        raise ValueError(f"the shape of {name} is {given!r}; expected positive whole numbers such as (3, 64, 64)")
    return tuple(int(size) for size in sizes)


def _bounds(given: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Lower and upper bounds of ``shape``, given as a pair of numbers or of lists."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ValueError(f"the range of Box actions is {given!r}; expected [low, high]")
    try:
        low, high = (np.broadcast_to(np.asarray(bound, np.float32), shape) for bound in given)
    except ValueError as error:
        raise ValueError(
            f"the range of Box actions is {given!r}; expected two numbers, or two lists of shape {shape}"
        ) from error
    if not np.all(low < high):
        raise ValueError(f"the range of Box actions is {given!r}; expected [low, high] with low below high")
    return low, high
