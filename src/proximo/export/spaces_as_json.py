"""Spaces as JSON that any language reads: no infinity, and bounds that are all alike as one number."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array
from proximo.functional.spaces import Space


def describe_space(space: Space) -> dict[str, Any]:
    """
    >>> describe_space(spaces.Box(0, 255, (2, 2, 3), np.uint8))
    {'type': 'Box', 'shape': [2, 2, 3], 'dtype': 'uint8', 'low': 0, 'high': 255}
    >>> describe_space(spaces.Tuple([spaces.Discrete(3, start=1)]))
    {'type': 'Tuple', 'spaces': [{'type': 'Discrete', 'n': 3, 'start': 1}]}
    """
    kind = {"type": type(space).__name__}
    match space:
        case spaces.Box():
            whole = {"shape": list(space.shape), "dtype": space.dtype.name}
            return {**kind, **whole, "low": _bounds(space.low), "high": _bounds(space.high)}
        case spaces.Discrete():
            return {**kind, "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {**kind, "nvec": space.nvec.tolist(), "start": space.start.tolist(), "dtype": space.dtype.name}
        case spaces.MultiBinary():
            return {**kind, "shape": list(space.shape), "dtype": space.dtype.name}
        case spaces.Dict():
            return {**kind, "spaces": {key: describe_space(part) for key, part in space.spaces.items()}}
        case spaces.Tuple():
            return {**kind, "spaces": [describe_space(part) for part in space.spaces]}
    return kind


def _bounds(values: Array) -> Any:
    """One number where all are alike; None for a bound that is none."""
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    if plain.size and all(value == plain.flat[0] for value in plain.flat):
        first: Any = plain.flat[0]
        return first
    return plain.tolist()
