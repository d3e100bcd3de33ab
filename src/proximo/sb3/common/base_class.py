"""The base of algorithms: here there is one, the on-policy one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from proximo.agents.on_policy import OnPolicyAlgorithm as BaseAlgorithm
from proximo.envs import make_env
from proximo.other_libraries import names_from
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule, TensorDict

__all__ = ["BaseAlgorithm", "GymEnv", "MaybeCallback", "Schedule", "TensorDict", "maybe_make_env"]

_ALSO = ("callbacks", "env_util", "monitor", "policies", "preprocessing", "utils", "logger", "vec_env")
__getattr__ = names_from(__name__, {}, [f"common.{name}" for name in _ALSO])


def maybe_make_env(env: gym.Env[Any, Any] | str, verbose: int = 0) -> Any:
    """The environment of an id; what is an environment already comes back unchanged."""
    if not isinstance(env, str):
        return env
    if verbose >= 1:
        print(f"Creating environment from the given name '{env}'")  # noqa: T201
    return make_env(env)
