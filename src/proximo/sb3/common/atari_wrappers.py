"""Atari preprocessing."""

from __future__ import annotations

from proximo.envs.wrappers.atari import (
    AtariWrapper,
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
    StickyActionEnv,
    WarpFrame,
)
from proximo.sb3.common.type_aliases import AtariResetReturn, AtariStepReturn

__all__ = [
    "AtariResetReturn",
    "AtariStepReturn",
    "AtariWrapper",
    "ClipRewardEnv",
    "EpisodicLifeEnv",
    "FireResetEnv",
    "MaxAndSkipEnv",
    "NoopResetEnv",
    "StickyActionEnv",
    "WarpFrame",
]
