"""Which keys of Dict observations the policy sees, and which the value (Pinto et al. 2017, arXiv 1710.06542).

The value serves the training alone, so it may know what no robot will ever measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import spaces

from proximo.errors import ArgumentTypeError, ArgumentValueError, near_matches
from proximo.functional.spaces import Space


def checked_keys(name: str, keys: Sequence[str] | None, space: Space) -> list[str] | None:
    """The keys in the order of the space; None, or all of them, is None: everything is seen.

    >>> space = spaces.Dict(position=spaces.Discrete(2), wind=spaces.Discrete(2))
    >>> checked_keys("actor_keys", ["position"], space)
    ['position']
    >>> checked_keys("actor_keys", ["positon"], space)
    Traceback (most recent call last):
    ...
    proximo.errors.ArgumentValueError: actor_keys has 'positon', which is no key of the observations; did you mean \
'position'?
    """
    if keys is None:
        return None
    if not isinstance(space, spaces.Dict):
        raise ArgumentValueError(
            f"{name} is {keys!r}, but observations are {space}: only Dict observations have keys to choose from"
        )
    if isinstance(keys, str) or not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise ArgumentTypeError(f"{name} is {keys!r}; expected a list of keys such as {list(space.spaces)[:2]}")
    for key in keys:
        if key not in space.spaces:
            raise ArgumentValueError(
                f"{name} has {key!r}, which is no key of the observations; {near_matches(key, space.spaces)}"
            )
    if not keys or len(set(keys)) < len(keys):
        raise ArgumentValueError(f"{name} is {list(keys)}; expected at least one key, and each of them once")
    return None if len(keys) == len(space.spaces) else [key for key in space.spaces if key in keys]


def seen_space(space: Space, keys: Sequence[str] | None) -> Space:
    """What is left of a Dict space; with None all of any space."""
    if keys is None or not isinstance(space, spaces.Dict):
        return space
    return spaces.Dict({key: space[key] for key in keys})


def seen_part(observation: Any, keys: Sequence[str] | None, who: str) -> Any:
    """The part of an observation with these keys; who reads it is named where one is missing."""
    if keys is None:
        return observation
    if missing := [key for key in keys if key not in observation]:
        raise ArgumentValueError(
            f"the observation has the keys {sorted(observation)}; the {who} reads {', '.join(map(repr, missing))} too"
        )
    return {key: observation[key] for key in keys}
