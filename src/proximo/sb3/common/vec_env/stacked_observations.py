"""Stacks of observations."""

from proximo.envs import StackedObservations
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["StackedObservations", "VecEnvIndices", "VecEnvObs", "VecEnvStepReturn"]
