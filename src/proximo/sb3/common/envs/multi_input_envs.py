"""An environment of Dict observations."""

from __future__ import annotations

from proximo.envs.testing.environments import SimpleMultiObsEnv
from proximo.sb3.common.type_aliases import GymStepReturn

__all__ = ["GymStepReturn", "SimpleMultiObsEnv"]
