"""Environments in worker processes."""

from proximo.envs import SubprocVecEnv
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["SubprocVecEnv", "VecEnvIndices", "VecEnvObs", "VecEnvStepReturn"]
