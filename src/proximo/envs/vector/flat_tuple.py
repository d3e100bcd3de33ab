"""Tuples of observations, as networks read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces

from proximo.data import Observation
from proximo.envs.vector.vec_env import ObservationTransform, VecEnv
from proximo.functional.spaces import NestedObservation


class FlatTuple(ObservationTransform):
    """Observations of a ``Tuple`` space as a dictionary with the keys ``"0"``, ``"1"``, …

    Vector environments show tuples, as Stable-Baselines3's do; training steps this view of them. It keeps nothing: its
    state is that of the environment inside.
    """

    def __init__(self, venv: VecEnv) -> None:
        """Arguments:
        venv: A vector environment whose observations are tuples.
        """
        self._nesting = NestedObservation(venv.observation_space)
        super().__init__(venv, self._nesting.space)

    def show(self, observations: Any) -> Observation:
        return self._nesting.flatten(observations)

    def get_state(self, inner: bool = True) -> dict[str, Any]:
        return self.venv.get_state(inner)

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.venv.set_state(state)

    def join_states(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.venv.join_states(states)

    def part_of_state(self, state: Mapping[str, Any], rows: slice) -> dict[str, Any]:
        return self.venv.part_of_state(state, rows)


def with_flat_tuples(env: VecEnv) -> VecEnv:
    """The environment itself, or a view of it without tuples."""
    return FlatTuple(env) if isinstance(env.observation_space, spaces.Tuple) else env
