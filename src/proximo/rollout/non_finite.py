"""Steps of a rollout that hold no numbers, and how training goes on without them when the user asked for that."""

from __future__ import annotations

import warnings

import numpy as np

from proximo.data import Array, Observation, Rollout, observation_parts
from proximo.errors import NonFiniteError


class BrokenSteps:
    """Finds NaN and infinity while a rollout is collected, and takes the steps they touch out of training."""

    def __init__(self, steps: int, environments: int) -> None:
        self.observations = np.zeros((steps + 1, environments), np.bool_)  # the last one follows the rollout

    def blank(self, step: int, observations: Observation) -> None:
        """Note which of the [env, …] observations are broken, and show zeros there, so that the policy can act.

        Whole numbers stay: they are never broken, and zero may be none of those that a discrete space holds.
        """
        parts = _floats(observations)
        for part in parts:
            self.observations[step] |= ~np.isfinite(part.reshape(len(part), -1)).all(axis=1)
        if self.observations[step].any():
            for part in parts:
                part[self.observations[step]] = 0

    def _touched(self, ended: Array) -> Array:
        """[time, env]: which steps began with a broken observation, or led to one within their episode."""
        return self.observations[:-1] | (self.observations[1:] & ~ended)

    def led_nowhere(self, rollout: Rollout, next_observations: Observation) -> Array:
        """[time, env]: which steps began with or led to something broken, the last of an episode too.

        Zeros are shown in their place in ``next_observations`` [time, env, …].
        """
        parts = _floats(next_observations)
        broken = self._touched(rollout.terminated | rollout.truncated)
        for part in parts:
            broken |= ~np.isfinite(part.reshape(*broken.shape, -1)).all(axis=2)
        for part in parts:
            part[broken] = 0
        return broken

    def cut_out(self, rollout: Rollout, last_values: Array) -> None:
        """Take every step out of training that a broken number touches, and end the segment before as a truncation.

        A step is touched by its observation, by the one it led to, by its reward and by the value it was to be
        bootstrapped with. What comes before a touched step is worth V of the observation that it led to; that one is
        sound, or the step before would be touched too.
        """
        ended = rollout.terminated | rollout.truncated
        touched = self._touched(ended)
        touched |= ~np.isfinite(rollout.rewards) | ~np.isfinite(rollout.bootstrap_values)
        if not touched.any():
            return
        if touched.all():
            raise NonFiniteError("NaN or infinity touches every step of the rollout: there is nothing to learn from")
        rollout.rewards[touched] = 0.0
        rollout.bootstrap_values[touched] = 0.0
        before = np.zeros_like(touched)
        before[:-1] = touched[1:] & ~touched[:-1] & ~ended[:-1]
        rollout.truncated |= before
        next_values = np.concatenate([rollout.values[1:], last_values[None]])
        rollout.bootstrap_values[before] = next_values[before]
        rollout.valid = ~touched if rollout.valid is None else rollout.valid & ~touched
        step, environment = (int(axis[0]) for axis in np.nonzero(touched))
        warnings.warn(
            f"NaN or infinity touches {int(touched.sum())} of {touched.size} steps of the rollout, the first of them "
            f"in environment {environment} at step {step}; these steps were left out of training",
            stacklevel=2,
        )


def _floats(observations: Observation) -> list[Array]:
    return [part for part in observation_parts(observations) if np.issubdtype(part.dtype, np.floating)]
