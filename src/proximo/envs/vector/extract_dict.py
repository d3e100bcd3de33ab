"""One entry of dictionary observations."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from proximo.data import Array, Observation, StepArrays
from proximo.envs.vector.vec_env import StepTransform, VecEnv, map_final_observations
from proximo.errors import ArgumentTypeError, ArgumentValueError, near_matches
from proximo.other_libraries import stands_for


@stands_for("stable_baselines3.common.vec_env.vec_extract_dict_obs", "VecExtractDictObs")
class VecExtractDictObs(StepTransform):
    """Show only ``observations[key]``."""

    def __init__(self, venv: VecEnv, key: str) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        key: The key of the observation that is shown.
        """
        space = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise ArgumentValueError(f"VecExtractDictObs needs Dict observations, got {space}")
        if key not in space.spaces:
            raise ValueError(f"the observations have no key {key!r}: {near_matches(key, space.spaces)}")
        self.key = key
        super().__init__(venv, observation_space=space.spaces[key])

    def reset(self) -> Array:
        return self._extract(self.venv.reset())

    def transform(self, step: StepArrays) -> StepArrays:
        return step._replace(
            observations=self._extract(step.observations),
            final_observations=map_final_observations(step, self._extract),
        )

    rows_in_state = ()

    def own_state(self) -> dict[str, Any]:
        return {}

    def _extract(self, observations: Observation) -> Array:
        if not isinstance(observations, dict):
            raise ArgumentTypeError(f"expected a dictionary of observations, got {type(observations).__name__}")
        return observations[self.key]
