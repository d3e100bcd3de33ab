"""The bases of vector environments."""

from __future__ import annotations

from proximo.envs import CloudpickleWrapper, VecEnv, VecEnvWrapper, tile_images
from proximo.envs.vector.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = [
    "CloudpickleWrapper",
    "VecEnv",
    "VecEnvIndices",
    "VecEnvObs",
    "VecEnvStepReturn",
    "VecEnvWrapper",
    "tile_images",
]
