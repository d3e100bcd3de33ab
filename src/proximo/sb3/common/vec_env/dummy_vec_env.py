"""Environments in a loop."""

from proximo.envs import DummyVecEnv
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["DummyVecEnv", "VecEnvIndices", "VecEnvObs", "VecEnvStepReturn"]
