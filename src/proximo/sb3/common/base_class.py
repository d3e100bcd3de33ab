"""The base of algorithms: here there is one, the on-policy one."""

from __future__ import annotations

from proximo.agents.on_policy import OnPolicyAlgorithm as BaseAlgorithm
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule, TensorDict
from proximo.training.utilities import maybe_make_env

__all__ = ["BaseAlgorithm", "GymEnv", "MaybeCallback", "Schedule", "TensorDict", "maybe_make_env"]
