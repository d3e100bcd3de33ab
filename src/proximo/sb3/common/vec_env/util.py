"""Observations of vector environments, part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.envs.vector.vec_env import VecEnvObs
from proximo.errors import ArgumentValueError
from proximo.functional.spaces import Space, check_for_nested_spaces

__all__ = ["VecEnvObs", "dict_to_obs", "obs_space_info"]


def obs_space_info(
    obs_space: Space,
) -> tuple[list[Any], dict[Any, tuple[int, ...] | None], dict[Any, np.dtype[Any] | None]]:
    """Keys, shapes and dtypes of the parts of a space; one that has no parts has the single key None.

    >>> obs_space_info(spaces.Discrete(3))
    ([None], {None: ()}, {None: dtype('int64')})
    """
    check_for_nested_spaces(obs_space)
    parts: dict[Any, Space] = {None: obs_space}
    if isinstance(obs_space, spaces.Dict):
        parts = dict(obs_space.spaces)
    elif isinstance(obs_space, spaces.Tuple):
        parts = dict(enumerate(obs_space.spaces))
    shapes = {key: part.shape for key, part in parts.items()}
    return list(parts), shapes, {key: part.dtype for key, part in parts.items()}


def dict_to_obs(obs_space: Space, obs_dict: dict[Any, Array]) -> Observation | tuple[Array, ...]:
    """The observation of a space from its parts under the keys of :func:`obs_space_info`."""
    expected = obs_space_info(obs_space)[0]
    if obs_dict.keys() != set(expected):
        raise ArgumentValueError(f"got parts {list(obs_dict)} for {obs_space}, expected {expected}")
    match obs_space:
        case spaces.Dict():
            return obs_dict
        case spaces.Tuple():
            return tuple(obs_dict[index] for index in expected)
    return obs_dict[None]
