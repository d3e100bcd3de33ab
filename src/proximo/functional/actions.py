"""Hybrid actions: ``Dict`` and ``Tuple`` spaces, nested, of Box, Discrete, MultiDiscrete and MultiBinary.

Inside the library an action is one flat row of float32 columns, the parts side by side in the order of the space; the
structure that the environment declared is restored where the action leaves for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array
from proximo.errors import ArgumentValueError
from proximo.functional.spaces import Space, get_action_dim


def leaves(space: Space) -> Iterator[Space]:
    """The plain spaces of a nested one, depth first.

    >>> list(leaves(spaces.Tuple([spaces.Discrete(2), spaces.Dict(x=spaces.MultiBinary(3))])))
    [Discrete(2), MultiBinary(3)]
    """
    match space:
        case spaces.Dict():
            for part in space.spaces.values():
                yield from leaves(part)
        case spaces.Tuple():
            for part in space.spaces:
                yield from leaves(part)
        case _:
            yield space


def stored_action_dtype(space: Space) -> np.dtype[Any]:
    """Number type of the actions in a rollout: float32 for what is sampled as a number, and for hybrid actions."""
    return np.dtype(np.float32) if isinstance(space, spaces.Box | spaces.Dict | spaces.Tuple) else np.dtype(space.dtype)


def fit_to_box(space: spaces.Box, actions: Array) -> Array:
    """Actions [..., *space.shape] within the bounds and in the number type of the space; integers are rounded.

    >>> fit_to_box(spaces.Box(0, 3, (3,), np.int64), np.array([-1.0, 1.6, 9.0]))
    array([0, 2, 3])
    """
    clipped = np.clip(actions, space.low, space.high)
    if not np.issubdtype(space.dtype, np.floating):
        clipped = np.rint(clipped)
    return clipped.astype(space.dtype, copy=False)


def mask_groups(space: Space) -> list[int]:
    """Sizes of the groups of an action mask: in each group, at least one entry must be true.

    One group per choice; a switch (MultiBinary) has two entries, off and on. Continuous actions have none.

    >>> mask_groups(spaces.Tuple([spaces.Discrete(4), spaces.Box(0, 1, (2,)), spaces.MultiBinary(2)]))
    [4, 2, 2]
    """
    sizes: list[int] = []
    for leaf in leaves(space):
        match leaf:
            case spaces.Discrete():
                sizes.append(int(leaf.n))
            case spaces.MultiDiscrete():
                sizes.extend(leaf.nvec.tolist())
            case spaces.MultiBinary():
                sizes.extend([2] * get_action_dim(leaf))
    return sizes


def required_mask_groups(space: Space) -> list[int]:
    """:func:`mask_groups`; an error where there is nothing to choose from."""
    if not (groups := mask_groups(space)):
        raise ArgumentValueError(f"action masks need discrete choices, this environment takes {space}")
    return groups


def mask_row(mask: Any, space: Space, environment: int) -> Array:
    """The mask that an environment gave, as one row; ``environment`` is its index, for the error message.

    >>> mask_row([[1], [0], [1]], spaces.Discrete(3), environment=0)
    array([ True, False,  True])
    """
    array, width = np.asarray(mask), sum(mask_groups(space))
    fits = array.ndim > 0 and array.size == width
    if not fits or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        came = f"is {array.tolist()!r}" if fits or array.ndim == 0 else f"has shape {array.shape}"
        raise ValueError(
            f"the action mask of environment {environment} {came}, expected an array of shape ({width},) that is true "
            f"where an action is allowed: an entry for each choice of {space}"
        )
    return array.reshape(-1).astype(np.bool_)


def mask_rows(masks: Iterable[Any], space: Space) -> Array:
    """The masks of all environments, [env, mask] bool."""
    return np.stack([mask_row(mask, space, index) for index, mask in enumerate(masks)])


def rows_without_choice(masks: Array, groups: Sequence[int]) -> Array:
    """Indices of the rows of masks [batch, mask] in which some group allows nothing.

    >>> rows_without_choice(np.array([[True, False, True], [True, True, False]]), [2, 1])
    array([1])
    """
    possible = np.logical_or.reduceat(masks, np.cumsum([0, *groups[:-1]]), axis=1)
    return np.flatnonzero(~possible.all(axis=1))


def check_masks(masks: Any, space: Space, rows: int) -> Array:
    """Masks of a batch of ``rows`` observations as [rows, mask] bool, or an error that says what they should be.

    >>> check_masks([True, False], spaces.Discrete(2), rows=1)
    array([[ True, False]])
    """
    groups = mask_groups(space)
    if not groups:
        raise ValueError(f"action masks need discrete choices, but actions are {space}")
    array = np.asarray(masks).astype(np.bool_)
    if array.size != rows * sum(groups):
        raise ValueError(
            f"action masks have shape {array.shape}, expected {(rows, sum(groups))}: one row per observation with an "
            f"entry for each choice of {space}"
        )
    array = array.reshape(rows, -1)
    if len(empty := rows_without_choice(array, groups)):
        raise ValueError(
            f"the action mask of observation {int(empty[0])} allows no action; at least one entry of each choice must "
            "be true"
        )
    return array


def restore_structure(space: Space, rows: Array) -> list[Any]:
    """One action per row, in the structure and dtypes of ``space``; Box parts are clipped to their bounds.

    >>> space = spaces.Dict(kind=spaces.Discrete(3), power=spaces.Box(0.0, 1.0, (1,)))
    >>> restore_structure(space, np.array([[2.0, 7.0]], np.float32))
    [{'kind': np.int64(2), 'power': array([1.], dtype=float32)}]
    """
    return [_restore(space, _Columns(row)) for row in rows]


class _Columns:
    """Takes columns off a row, from left to right."""

    def __init__(self, row: Array) -> None:
        self.row = row
        self.position = 0

    def take(self, count: int) -> Array:
        part = self.row[self.position : self.position + count]
        self.position += count
        return part


def _restore(space: Space, columns: _Columns) -> Any:
    match space:
        case spaces.Dict():
            return {key: _restore(part, columns) for key, part in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_restore(part, columns) for part in space.spaces)
        case spaces.Discrete():
            return np.int64(columns.take(1)[0]) + space.start
        case spaces.Box():
            return fit_to_box(space, columns.take(get_action_dim(space)).reshape(space.shape))
        case spaces.MultiDiscrete():
            return columns.take(get_action_dim(space)).astype(space.dtype) + space.start
        case _:
            return columns.take(get_action_dim(space)).astype(space.dtype)


def first_action(actions: Any) -> Any:
    """The action of a batch of one, as the environment takes it; a single number stays an array, without dimensions.

    >>> first_action(np.array([3]))
    array(3)
    """
    return actions[0, ...] if isinstance(actions, np.ndarray) else actions[0]
