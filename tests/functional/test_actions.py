"""Hybrid actions between flat rows and the structure that an environment declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from action_spaces import hybrid_spaces
from proximo.functional.actions import check_masks, leaves, mask_groups, restore_structure, rows_without_choice
from proximo.functional.spaces import get_action_dim


def flat_row(space: spaces.Space[Any], action: Any) -> list[float]:
    """What the library holds inside for an action of the space: choices counted from 0."""
    match space:
        case spaces.Dict():
            return [number for key, part in space.spaces.items() for number in flat_row(part, action[key])]
        case spaces.Tuple():
            return [number for part, each in zip(space.spaces, action, strict=True) for number in flat_row(part, each)]
        case spaces.Discrete():
            return [float(action - space.start)]
        case spaces.MultiDiscrete():
            return [float(number) for number in action - space.start]
        case _:
            return [float(number) for number in np.asarray(action).flatten()]


def same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return np.asarray(first).dtype == np.asarray(second).dtype and np.allclose(first, second, atol=1e-3)


@given(space=hybrid_spaces, seed=st.integers(0, 1000))
def test_structure_is_restored(space: Any, seed: int) -> None:
    """A sample of the space, laid flat, comes back as itself, types and all."""
    space.seed(seed)
    samples = [space.sample() for _ in range(3)]
    rows = np.array([flat_row(space, sample) for sample in samples], np.float32)
    assert rows.shape == (3, get_action_dim(space))
    for restored, sample in zip(restore_structure(space, rows), samples, strict=True):
        assert space.contains(restored)
        assert same(restored, sample), (restored, sample)


@given(space=hybrid_spaces, scale=st.sampled_from([1.0, 50.0, 1e6]))
def test_continuous_parts_are_clipped_into_the_space(space: Any, scale: float) -> None:
    choices = np.array([number for leaf in leaves(space) for number in _zeros_or_noise(leaf, scale)], np.float32)
    (restored,) = restore_structure(space, choices[None])
    assert space.contains(restored)


def _zeros_or_noise(leaf: Any, scale: float) -> list[float]:
    width = get_action_dim(leaf)
    if isinstance(leaf, spaces.Box):
        return list(scale * np.random.default_rng(0).normal(size=width))
    return [0.0] * width


def test_by_hand() -> None:
    space = spaces.Dict(
        aim=spaces.Box(np.array([-1.0, 0.0], np.float64), np.array([1.0, 0.5], np.float64), dtype=np.float64),
        kind=spaces.Discrete(3, start=-1),
        rest=spaces.Tuple([spaces.MultiDiscrete([2, 3], start=[5, 0]), spaces.MultiBinary(2)]),
    )
    row = np.array([[-4.0, 0.25, 2.0, 1.0, 2.0, 0.0, 1.0]], np.float32)
    (action,) = restore_structure(space, row)
    assert action["aim"].dtype == np.float64
    assert action["aim"].tolist() == [-1.0, 0.25]
    assert action["kind"] == 1
    assert action["rest"][0].tolist() == [6, 2]
    assert action["rest"][1].tolist() == [0, 1]
    assert space.contains(action)
    assert mask_groups(space) == [3, 2, 3, 2, 2]


@given(space=hybrid_spaces)
def test_mask_groups_count_every_choice(space: Any) -> None:
    groups = mask_groups(space)
    choices = 0
    for leaf in leaves(space):
        match leaf:
            case spaces.Discrete():
                choices += int(leaf.n)
            case spaces.MultiDiscrete():
                choices += int(leaf.nvec.sum())
            case spaces.MultiBinary():
                choices += 2 * leaf.shape[0]
    assert sum(groups) == choices


def test_rows_without_a_choice() -> None:
    masks = np.array([[1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 0, 0]], bool)
    assert rows_without_choice(masks, [2, 2]).tolist() == [1, 3]
    assert rows_without_choice(masks, [2, 1, 1]).tolist() == [1, 2, 3]
    assert rows_without_choice(masks, [4]).tolist() == []


def test_masks_of_a_batch() -> None:
    space = spaces.MultiDiscrete([2, 2])
    assert check_masks([1, 0, 0, 1], space, rows=1).tolist() == [[True, False, False, True]]
    # contrib's users pass one row per environment, or one mask per choice
    assert check_masks(np.ones((3, 2, 2)), space, rows=3).shape == (3, 4)
    with pytest.raises(ValueError, match=r"\(2, 3\), expected \(2, 4\)"):
        check_masks(np.ones((2, 3)), space, rows=2)
    with pytest.raises(ValueError, match="observation 1 allows no action"):
        check_masks([[1, 1, 1, 1], [1, 1, 0, 0]], space, rows=2)
    with pytest.raises(ValueError, match=r"discrete choices, but actions are Box"):
        check_masks([1], spaces.Box(0.0, 1.0, (1,)), rows=1)
