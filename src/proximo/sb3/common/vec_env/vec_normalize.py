"""Normalised observations and rewards."""

from __future__ import annotations

from proximo.envs import VecNormalize
from proximo.envs.vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

__all__ = ["VecEnvIndices", "VecEnvObs", "VecEnvStepReturn", "VecNormalize"]
