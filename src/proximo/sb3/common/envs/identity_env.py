"""Environments whose best action is their observation."""

from __future__ import annotations

from proximo.envs.testing.environments import (
    FakeImageEnv,
    IdentityEnv,
    IdentityEnvBox,
    IdentityEnvMultiBinary,
    IdentityEnvMultiDiscrete,
)
from proximo.sb3.common.type_aliases import GymStepReturn

__all__ = [
    "FakeImageEnv",
    "GymStepReturn",
    "IdentityEnv",
    "IdentityEnvBox",
    "IdentityEnvMultiBinary",
    "IdentityEnvMultiDiscrete",
]
