"""Observations to trace and to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.errors import ExportError
from proximo.export.pipeline import Pipeline, as_given, parts_of
from proximo.functional.spaces import Space

REACHED = 1e3  # bounds beyond it are none: no observation comes there
EDGE = 10.0  # deviations from the mean, in the place of such bounds


def random_observations(pipeline: Pipeline, rows: int, generator: np.random.Generator) -> Observation:
    """Rows of what the graph is given: lower and upper edge and zeros among them, the rest anywhere in the space.

    Where that has no bounds, around the mean that the statistics of normalisation know, at several scales.
    """
    usual = pipeline.moments()
    parts = parts_of(pipeline.space).items()
    return as_given({name: _rows(part, rows, generator, *usual.get(name, (0.0, 1.0))) for name, part in parts})


def _rows(space: Space, rows: int, generator: np.random.Generator, mean: Any, var: Any) -> Array:
    match space:
        case spaces.Discrete():
            low, high = np.asarray(space.start), np.asarray(space.start + space.n - 1)
        case spaces.MultiDiscrete():
            low, high = space.start, space.start + space.nvec - 1
        case spaces.MultiBinary():
            low, high = np.zeros(space.shape, np.int64), np.ones(space.shape, np.int64)
        case spaces.Box():
            low, high = space.low, space.high
        case _:
            raise ExportError(f"observations of {space} cannot be made up")
    shape = (rows, *low.shape)
    if np.issubdtype(space.dtype, np.floating):
        deviation = np.sqrt(var)
        bounded = (np.abs(low) < REACHED) & (np.abs(high) < REACHED)
        mean = np.clip(mean, low, high)  # without statistics it is zero, which may lie outside of the space
        bottom = np.where(bounded, low, np.maximum(low, mean - EDGE * deviation)).astype(np.float64)
        top = np.where(bounded, high, np.minimum(high, mean + EDGE * deviation)).astype(np.float64)
        scale = 10.0 ** generator.integers(-1, 2, (rows, *(1,) * low.ndim))
        free = np.clip(mean + generator.standard_normal(shape) * scale * deviation, bottom, top)
        found = np.where(bounded, generator.uniform(bottom, top, shape), free)
    else:
        lowest = low.astype(np.int64)
        reach = np.maximum(lowest, 0) + 2.0**31  # in floats: the bounds of unsigned integers may not fit into int64
        highest = np.minimum(high.astype(np.float64), reach).astype(np.int64)
        found = generator.integers(lowest, highest, shape, endpoint=True).astype(np.float64)
        bottom, top = lowest.astype(np.float64), highest.astype(np.float64)
    edges = [np.clip(np.zeros_like(bottom), bottom, top), bottom, top]
    if count := min(rows - 1, len(edges)):
        found[-count:] = edges[:count]
    return found.astype(space.dtype)
