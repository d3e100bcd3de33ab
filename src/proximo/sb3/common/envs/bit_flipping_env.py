"""A goal environment."""

from __future__ import annotations

from proximo.envs.testing.environments import BitFlippingEnv
from proximo.sb3.common.type_aliases import GymStepReturn

__all__ = ["BitFlippingEnv", "GymStepReturn"]
