"""One key of Dict observations."""

from proximo.envs import VecExtractDictObs
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecExtractDictObs"]
