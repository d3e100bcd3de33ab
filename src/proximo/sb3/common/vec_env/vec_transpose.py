"""Images with channels first."""

from proximo.envs import VecTransposeImage
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecTransposeImage"]
