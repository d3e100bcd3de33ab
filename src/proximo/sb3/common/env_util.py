"""Make vector environments."""

from __future__ import annotations

from proximo.envs import (
    AtariWrapper,
    DummyVecEnv,
    Monitor,
    SubprocVecEnv,
    VecEnv,
    is_wrapped,
    make_atari_env,
    make_vec_env,
    unwrap_wrapper,
)

__all__ = [
    "AtariWrapper",
    "DummyVecEnv",
    "Monitor",
    "SubprocVecEnv",
    "VecEnv",
    "is_wrapped",
    "make_atari_env",
    "make_vec_env",
    "unwrap_wrapper",
]
