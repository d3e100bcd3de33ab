"""Action masks, read from the environments before every step."""

from __future__ import annotations

import numpy as np

from proximo.data import Array
from proximo.envs.vector.vec_env import VecEnv
from proximo.functional.actions import required_mask_groups, rows_without_choice


class MaskReader:
    """Asks the environments which actions are allowed now, and refuses masks that allow nothing."""

    def __init__(self, env: VecEnv, stage: str = "rollout") -> None:
        """``stage`` is what the steps belong to, for the error messages.

        Arguments:
            env: The vector environment that is asked.
            stage: What it is asked for, in words, for errors.
        """
        self._groups = required_mask_groups(env.action_space)
        if not env.has_attr("action_masks"):
            raise ValueError(
                "the environments have no method action_masks(); define it, or wrap each one in "
                "ActionMasker(env, function)"
            )
        self.env = env
        self.stage = stage
        self.width = sum(self._groups)
        self._starts = np.cumsum([0, *self._groups[:-1]])  # of the groups

    def read(self, step: int) -> Array:
        """[env, mask] bool, true where an action is allowed: one call for all environments."""
        masks = self.env.action_masks()
        if masks.shape != (self.env.num_envs, self.width):
            raise ValueError(
                f"action masks have shape {masks.shape}, expected {(self.env.num_envs, self.width)}: one row per "
                f"environment with an entry for each choice of {self.env.action_space}"
            )
        if not np.logical_or.reduceat(masks, self._starts, axis=1).all():
            empty = rows_without_choice(masks, self._groups)
            raise ValueError(
                f"the action mask of environment {int(empty[0])} allows no action at step {step} of the {self.stage}; "
                "at least one entry of each choice must be true"
            )
        return masks
