"""One entry of dictionary observations."""

from __future__ import annotations

from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.envs.vector.vec_env import ObservationTransform, VecEnv
from proximo.errors import ArgumentTypeError, ArgumentValueError, near_matches
from proximo.other_libraries import stands_for


@stands_for("stable_baselines3.common.vec_env.vec_extract_dict_obs", "VecExtractDictObs")
class VecExtractDictObs(ObservationTransform):
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

    def show(self, observations: Observation) -> Array:
        if not isinstance(observations, dict):
            raise ArgumentTypeError(f"expected a dictionary of observations, got {type(observations).__name__}")
        return observations[self.key]
