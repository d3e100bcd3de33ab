"""Observations of vector environments, part by part."""

from __future__ import annotations

from proximo.envs.vector.vec_env import VecEnvObs
from proximo.training.utilities import dict_to_obs, obs_space_info

__all__ = ["VecEnvObs", "dict_to_obs", "obs_space_info"]
