"""Episode statistics of a vector environment."""

from proximo.envs import VecMonitor
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecMonitor"]
