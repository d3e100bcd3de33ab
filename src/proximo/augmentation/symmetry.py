"""Tasks that look the same in a mirror: every sample is also one of the mirrored situation.

Duplicated samples (Abdolhosseini et al. 2019, "On Learning Symmetric Locomotion"; Mittal et al. 2024, arXiv
2403.04359). A mirrored action was drawn by mirroring, so its probability then was π_old(a|s) of the plain sample: that
is what the ratio of PPO divides by, and not π_old(ga|gs), under which nothing was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from proximo.augmentation.base import BaseAugmentation
from proximo.data import Array, Observation, Rollout, map_observation
from proximo.errors import ArgumentValueError
from proximo.functional.actions import leaves, stored_action_dtype
from proximo.functional.spaces import Space, counted_from_zero, get_action_dim

SAMPLES = 16  # of each space, on which a mirror is tried


class Mirror(BaseAugmentation):
    """What a mirror makes of observations and actions; twice mirrored, everything is as it was.

    For Box spaces of one dimension: entry i of the mirrored array is ``signs[i] * array[order[i]]``; signs are 1 and
    the order is as it is, where they are left out. For Discrete actions ``action_order`` alone: action a becomes
    ``action_order[a]``. For anything else ``observation`` and ``action`` are functions of batches [row, …]
    (dictionaries of them for Dict observations) that return the mirrored batch; discrete actions count from 0, and
    Dict and Tuple actions are rows of numbers, the parts side by side in the order of the space.

    >>> Mirror(observation_signs=[-1, -1, -1, -1], action_order=[1, 0])  # CartPole
    Mirror(observation_signs=[-1, -1, -1, -1], action_order=[1, 0])
    """

    def __init__(
        self,
        observation: Callable[[Any], Any] | None = None,
        action: Callable[[Any], Any] | None = None,
        observation_signs: Sequence[float] | None = None,
        action_signs: Sequence[float] | None = None,
        observation_order: Sequence[int] | None = None,
        action_order: Sequence[int] | None = None,
    ) -> None:
        """Arguments:
        observation: A function of a batch of observations that returns it mirrored.
        action: A function of a batch of actions that returns it mirrored.
        observation_signs: 1 or -1 for each entry of an observation.
        action_signs: 1 or -1 for each entry of an action.
        observation_order: Which entry takes each place of a mirrored observation.
        action_order: Which entry takes each place of a mirrored action; for Discrete, what each action becomes.
        """
        super().__init__()
        self.observation, self.action = observation, action
        self.observation_signs, self.action_signs = observation_signs, action_signs
        self.observation_order, self.action_order = observation_order, action_order
        for name in ("observation", "action"):
            tables = [getattr(self, f"{name}_{kind}") for kind in ("signs", "order")]
            given = any(table is not None for table in tables)
            if given == (getattr(self, name) is not None):
                raise ArgumentValueError(
                    f"a mirror needs {name}_signs, {name}_order or both, or else the function {name}; "
                    f"{'all of them are' if given else 'none of them is'} given"
                )

    def __repr__(self) -> str:
        given = ((name, value) for name, value in self.arguments().items() if value is not None)
        return f"Mirror({', '.join(f'{name}={value!r}' for name, value in given)})"

    def observations(self, observations: Observation) -> Observation:
        """The mirrored batch."""
        if self.observation is not None:
            mirrored: Observation = self.observation(observations)
            return mirrored
        return _rearranged(observations, self.observation_signs, self.observation_order)  # type: ignore[arg-type]

    def actions(self, actions: Array, space: Space) -> Array:
        """Stored actions [row, column], mirrored."""
        if isinstance(space, spaces.Discrete) and self.action_order is not None:
            return np.asarray(self.action_order, actions.dtype)[actions]
        if self.action is None:
            return _rearranged(actions, self.action_signs, self.action_order)
        shape = actions.shape[1:] if isinstance(space, spaces.Dict | spaces.Tuple) else space.shape or ()
        mirrored = np.asarray(self.action(actions.reshape(len(actions), *shape)))
        if mirrored.size != actions.size:
            raise ArgumentValueError(
                f"the mirror makes {mirrored.shape} of actions {(len(actions), *shape)} of {space}; expected the same "
                "shape"
            )
        mirrored = mirrored.reshape(actions.shape)
        _check_choices(space, mirrored)
        return mirrored

    def masks(self, masks: Array, space: Space) -> Array:
        """Action masks [row, entry] of mirrored actions."""
        if not isinstance(space, spaces.Discrete) or self.action_order is None:
            raise ArgumentValueError(
                f"masks of {space} cannot be mirrored: only those of Discrete actions with an action_order can"
            )
        return masks[:, np.asarray(self.action_order)]  # the order is its own inverse

    def check(self, observation_space: Space, action_space: Space) -> None:
        """Raise unless both spaces, twice mirrored, are themselves."""
        self._check_tables("observation", observation_space)
        self._check_tables("action", action_space)
        observations = _samples(observation_space)
        once = self.observations(observations)
        _check_same("observations", observation_space, observations, once, self.observations(once))
        actions = _sampled_actions(action_space)
        mirrored = self.actions(actions, action_space)
        _check_same("actions", action_space, actions, mirrored, self.actions(mirrored, action_space))
        for part, columns in _columns(action_space, mirrored):
            if isinstance(part, spaces.Box) and not _within(part, columns):
                raise ArgumentValueError(f"mirrored actions leave {part}; its bounds must mirror each other")

    def _check_tables(self, name: str, space: Space) -> None:
        signs, order = getattr(self, f"{name}_signs"), getattr(self, f"{name}_order")
        if signs is None and order is None:
            return
        discrete = name == "action" and isinstance(space, spaces.Discrete)
        if not discrete and not (isinstance(space, spaces.Box) and len(space.shape) == 1):
            raise ArgumentValueError(
                f"{name}_signs and {name}_order are for Box spaces of one dimension, here is {space}; give a function "
                f"{name} of a batch instead"
            )
        size = int(space.n) if discrete else space.shape[0]  # type: ignore[attr-defined, index]
        if discrete and signs is not None:
            raise ArgumentValueError(f"action_signs is {signs}, but {space} has no signs; give action_order")
        if signs is not None and (len(signs) != size or not np.isin(signs, (-1, 1)).all()):
            raise ArgumentValueError(f"{name}_signs is {signs}; expected {size} times 1 or -1, for {space}")
        if order is not None and sorted(order) != list(range(size)):
            raise ArgumentValueError(f"{name}_order is {order}; expected each of 0 to {size - 1} once, for {space}")


def _rearranged(rows: Array, signs: Sequence[float] | None, order: Sequence[int] | None) -> Array:
    chosen = rows if order is None else rows[:, np.asarray(order)]
    return chosen if signs is None else chosen * np.asarray(signs, rows.dtype)


def _samples(space: Space) -> Observation:
    return map_observation(lambda *rows: np.stack(rows), *(space.sample() for _ in range(SAMPLES)))


def _sampled_actions(space: Space) -> Array:
    """Actions as a rollout stores them, [row, column]."""
    parts = [np.reshape(_samples(counted_from_zero(part)), (SAMPLES, -1)) for part in leaves(space)]  # type: ignore[arg-type]
    return np.concatenate(parts, axis=1, dtype=stored_action_dtype(space) if len(parts) > 1 else None)


def _columns(space: Space, actions: Array) -> Iterator[tuple[Space, Array]]:
    """The plain parts of an action space, each with its columns of stored actions."""
    parts = list(leaves(space))
    ends = np.cumsum([get_action_dim(part) for part in parts])[:-1]
    yield from zip(parts, np.split(actions, ends, axis=1), strict=True)


def _within(space: spaces.Box, columns: Array) -> bool:
    """Whether actions lie in their bounds, but for the rounding of float32, in which they are stored."""
    low, high = space.low.reshape(-1).astype(np.float32), space.high.reshape(-1).astype(np.float32)
    return bool(np.all((columns >= np.nextafter(low, -np.inf)) & (columns <= np.nextafter(high, np.inf))))


def _check_choices(space: Space, actions: Array) -> None:
    """Raise unless the discrete parts of mirrored actions are choices that there are: kernels index memory by them."""
    for part, columns in _columns(space, actions):
        match part:
            case spaces.Discrete():
                numbers: Any = part.n
            case spaces.MultiDiscrete():
                numbers = part.nvec
            case spaces.MultiBinary():
                numbers = 2
            case _:
                continue
        if not np.all((columns >= 0) & (columns < numbers) & (columns == np.rint(columns))):
            raise ArgumentValueError(
                f"mirrored actions leave {part}: the function action gives {columns.min()} to {columns.max()}; "
                "expected choices counted from 0"
            )


def _parts(observations: Any) -> dict[str, Array]:
    return observations if isinstance(observations, dict) else {"": observations}


def _check_same(what: str, space: Space, plain: Observation, once: Any, twice: Any) -> None:
    for key, part in _parts(plain).items():
        mirrored, back = _parts(once)[key], _parts(twice)[key]
        if np.shape(mirrored) != np.shape(part):
            raise ArgumentValueError(
                f"the mirror makes {np.shape(mirrored)} of {what} {np.shape(part)} of {space}; expected the same shape"
            )
        if not np.allclose(back, part, rtol=1e-5, atol=1e-6):
            raise ArgumentValueError(
                f"{what} of {space} that are mirrored twice are not what they were; look at the order and the signs"
            )


def mirror_rollout(mirror: Mirror, rollout: Rollout, into: Rollout, action_space: Space) -> None:
    """Fill a rollout of twice as many environments: those of ``rollout``, and then their mirror images."""
    steps, environments = rollout.rewards.shape
    plain, other = slice(0, environments), slice(environments, 2 * environments)
    for name in ("rewards", "values", "log_probs", "advantages", "returns"):
        memory, values = getattr(into, name), getattr(rollout, name)
        memory[:, plain] = memory[:, other] = values
    parts = _parts(rollout.observations)
    images = _parts(mirror.observations(_flat(rollout.observations, steps * environments)))
    for key, memory in _parts(into.observations).items():
        memory[:, plain] = parts[key]
        memory[:, other] = np.reshape(images[key], memory[:, other].shape)
    actions = rollout.actions.reshape(steps * environments, -1)
    into.actions[:, plain] = rollout.actions
    into.actions[:, other] = mirror.actions(actions, action_space).reshape(rollout.actions.shape)
    into.valid = None if rollout.valid is None else np.concatenate([rollout.valid] * 2, axis=1)
    into.action_masks = None
    if (masks := rollout.action_masks) is not None:
        image = mirror.masks(masks.reshape(steps * environments, -1), action_space).reshape(masks.shape)
        into.action_masks = np.concatenate([masks, image], axis=1)


def _flat(observations: Observation, rows: int) -> Observation:
    return map_observation(lambda part: part.reshape(rows, *part.shape[2:]), observations)


def paired_orders(orders: NDArray[np.int64], environments: int) -> NDArray[np.int64]:
    """Orders [epoch, sample] of a rollout as those of the doubled one: each sample and then its mirror image.

    >>> paired_orders(np.array([[3, 0]]), environments=2)
    array([[5, 7, 0, 2]])
    """
    steps, columns = np.divmod(orders, environments)
    plain = steps * 2 * environments + columns
    return np.stack([plain, plain + environments], axis=-1).reshape(len(orders), -1)
