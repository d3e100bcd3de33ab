"""Videos."""

from proximo.envs import VecVideoRecorder
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecVideoRecorder"]
