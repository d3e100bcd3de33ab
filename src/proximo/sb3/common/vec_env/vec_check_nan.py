"""Stop at NaN."""

from proximo.envs import VecCheckNan
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecCheckNan", "VecEnvIndices", "VecEnvObs", "VecEnvStepReturn"]
