"""Normalised observations and rewards."""

from proximo.envs import VecNormalize
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecNormalize"]
