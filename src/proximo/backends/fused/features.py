"""From observations to the float32 rows that a perceptron reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array

Encoder = Callable[[Array], Array]  # [rows, …] → [rows, feature] float32, contiguous


def feature_encoder(space: spaces.Space[Any]) -> Encoder:
    """Numbers are flattened, discrete values one-hot, counted from their ``start``.

    Float32 rows that are contiguous already are not copied.

    >>> feature_encoder(spaces.MultiDiscrete([2, 3]))(np.array([[1, 2]]))
    array([[0., 1., 0., 0., 1.]], dtype=float32)
    """
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec, space.start)

    def flatten(observations: Array) -> Array:
        rows = np.ascontiguousarray(observations, np.float32)
        return rows if rows.ndim == 2 else rows.reshape(len(rows), -1)

    return flatten


def _one_hot(sizes: Array, lowest: Array) -> Encoder:
    columns, total = np.cumsum(sizes) - sizes, int(sizes.sum())

    def encode(observations: Array) -> Array:
        values = observations.reshape(-1, len(sizes)).astype(np.int64) - lowest
        if values.min(initial=0) < 0 or np.any(values >= sizes):
            found = values + lowest
            raise ValueError(
                f"discrete observation outside of {lowest} … {lowest + sizes - 1}: {found.min(0)} … {found.max(0)}"
            )
        features = np.zeros((len(values), total), np.float32)
        np.put_along_axis(features, values + columns, np.float32(1), axis=1)
        return features

    return encode
