"""Which actions are allowed now: the environment says so in ``action_masks()``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from proximo.data import Array
from proximo.envs.vector.vec_env import VecEnv
from proximo.functional.actions import mask_row, mask_rows, required_mask_groups
from proximo.functional.spaces import Space

EXPECTED_METHOD_NAME = "action_masks"


class ActionMasker(gym.Wrapper[Any, Any, Any, Any]):
    """Gives an environment the method ``action_masks()``, from a function of the environment or a method's name.

    A mask is true where an action is allowed: one entry per choice of a Discrete space, those of all choices side by
    side for MultiDiscrete, off and on of every switch for MultiBinary.

    >>> env = ActionMasker(gym.make("CartPole-v1"), lambda env: [True, False])
    >>> env.action_masks()
    [True, False]
    """

    def __init__(self, env: gym.Env[Any, Any], action_mask_fn: str | Callable[[Any], Any]) -> None:
        """Arguments:
        env: The environment that is wrapped.
        action_mask_fn: A function of the environment that gives the mask, or the name of its method that does.
        """
        super().__init__(env)
        if not isinstance(action_mask_fn, str):
            self._read_mask: Callable[..., Any] = action_mask_fn
            self._arguments: tuple[Any, ...] = (env,)
            return
        method = env.get_wrapper_attr(action_mask_fn)
        if not callable(method):
            raise ValueError(f"the environment's attribute {action_mask_fn!r} is {method!r}, not a method")
        self._read_mask = method
        self._arguments = (env,) if _needs_argument(method) else ()

    def action_masks(self) -> Any:
        """The mask of this moment, true where an action is allowed."""
        return self._read_mask(*self._arguments)


def _needs_argument(method: Callable[..., Any]) -> bool:
    """Whether a method wants the environment although it is bound to one, as sb3-contrib calls it."""
    required = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    return bool(required)


class MaskRows:
    """The masks of environments that live in this process, [env, mask] bool, in memory that is reused."""

    def __init__(self, methods: list[Callable[[], Any]], action_space: Space, first_index: int = 0) -> None:
        """``methods[i]`` tells what environment ``first_index + i`` allows.

        Arguments:
            methods: Each environment's action_masks.
            action_space: The space of one action, which gives the mask's width.
            first_index: Number of the first of these environments among all, for errors.
        """
        groups = required_mask_groups(action_space)
        for index, method in enumerate(methods, first_index):
            if not callable(method):
                raise TypeError(
                    f"action_masks of environment {index} is {method!r:.80}; expected a method that returns the mask"
                )
        self.methods = methods
        self.action_space = action_space
        self.first_index = first_index
        self.rows: Array = np.ones((len(methods), sum(groups)), np.bool_)
        self.asked = 0  # the environment asked last: an error is its doing

    def bind(self, rows: Array) -> None:
        """Write to this memory from now on, which takes over what was read last."""
        rows[:] = self.rows
        self.rows = rows

    def read(self) -> Array:
        """Ask every environment. Training pays for this at every step."""
        rows, shape = self.rows, self.rows.shape[1:]
        for index, method in enumerate(self.methods):
            self.asked = index
            mask = np.asarray(method())
            is_row = mask.shape == shape and mask.dtype.kind in "biu"
            rows[index] = mask if is_row else mask_row(mask, self.action_space, self.first_index + index)
        return rows


def get_action_masks(env: Any) -> Array:
    """What ``action_masks()`` of an environment or of all environments of a vector environment says now."""
    if isinstance(env, VecEnv):
        return env.action_masks().copy()
    if hasattr(env, "env_method"):  # a vector environment of another library
        return mask_rows(env.env_method(EXPECTED_METHOD_NAME), env.action_space)
    return np.asarray(env.get_wrapper_attr(EXPECTED_METHOD_NAME)(), np.bool_)


def is_masking_supported(env: Any) -> bool:
    """Whether there is an ``action_masks()`` to ask."""
    if hasattr(env, "has_attr"):
        return bool(env.has_attr(EXPECTED_METHOD_NAME))
    return bool(env.has_wrapper_attr(EXPECTED_METHOD_NAME))
