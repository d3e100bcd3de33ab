"""Stacks of frames."""

from proximo.envs import VecFrameStack
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecFrameStack"]
