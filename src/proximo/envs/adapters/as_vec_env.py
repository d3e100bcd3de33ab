"""One entry for every kind of environment: :func:`as_vec_env`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from proximo.envs.adapters.foreign import ForeignVecEnvAdapter, with_own_transposition
from proximo.envs.adapters.gymnasium_vector import VectorEnvAdapter, is_env_pool
from proximo.envs.adapters.petting_zoo import ParallelEnvAdapter, TurnBasedEnv, is_petting_zoo, is_turn_based
from proximo.envs.make import make_env
from proximo.envs.vector.dummy import DummyVecEnv, require_gymnasium_env
from proximo.envs.vector.flat_tuple import with_flat_tuples
from proximo.envs.vector.transpose import VecTransposeImage, needs_transpose
from proximo.envs.vector.vec_env import VecEnv, is_vecenv_wrapped
from proximo.envs.wrappers.minigrid import with_numbers
from proximo.envs.wrappers.monitor import Monitor
from proximo.errors import NotAnEnvironmentError
from proximo.functional.spaces import check_for_nested_spaces


def as_vec_env(env: Any, *, monitor: bool = True, verbose: int = 0) -> VecEnv:
    """Any environment as a vector environment that gives PyTorch what it wants.

    Taken are: an environment id; a gymnasium ``Env``; a list of factories of these; a gymnasium ``VectorEnv``; an
    EnvPool made with ``env_type="gymnasium"``; a Stable-Baselines3 ``VecEnv``; a ``TorchVecEnv``; a proximo
    ``VecEnv``; a PettingZoo environment or a list of factories of them, parallel (a row for each agent) or in turns
    (:class:`TurnBasedEnv`, whose other players move at random). Single environments get a ``Monitor`` unless they have
    one or ``monitor`` is False; channels-last images are transposed; of MiniGrid's the agent's view and its mission
    are shown as one vector.

    >>> as_vec_env("CartPole-v1").num_envs
    1
    """
    vec_env = _vectorised(env, monitor, verbose)
    check_for_nested_spaces(vec_env.observation_space)
    vec_env = with_flat_tuples(vec_env)
    if not is_vecenv_wrapped(vec_env, VecTransposeImage) and needs_transpose(vec_env.observation_space):
        _say("transposing images to channels-first", verbose)
        vec_env = VecTransposeImage(vec_env)
    return vec_env


def _vectorised(env: Any, monitor: bool, verbose: int) -> VecEnv:
    if isinstance(env, VecEnv):
        return env
    if isinstance(inner := getattr(env, "vec_env", None), VecEnv):  # behind tensors
        return inner
    if isinstance(env, str):
        env = make_env(env)
    if isinstance(env, VectorEnv) or is_env_pool(env):  # an EnvPool may claim to be a gymnasium.Env as well
        return VectorEnvAdapter(env)
    if all(hasattr(env, name) for name in ("num_envs", "step_async", "step_wait", "reset")):
        return ForeignVecEnvAdapter(with_own_transposition(env))
    if isinstance(env, Sequence) and env and all(callable(item) for item in env):
        return _of_list([factory() for factory in env], monitor)
    if is_petting_zoo(env):
        return _of_list([env], monitor)
    if isinstance(env, gym.Env) or _looks_like_env(env):
        env = require_gymnasium_env(env)
        if monitor and not _is_monitored(env):
            _say("wrapping the environment in a Monitor", verbose)
        _say("wrapping the environment in a DummyVecEnv", verbose)
        return DummyVecEnv([partial(_monitored, env, monitor)])
    got = f"the class {env.__qualname__}; make an instance of it" if isinstance(env, type) else repr(env)
    if inspect.isroutine(env):
        got = f"{got}; a function that makes environments belongs into a list: as_vec_env([make])"
    raise NotAnEnvironmentError(
        "expected an environment id, a gymnasium.Env, a list of factories, a gymnasium VectorEnv, an EnvPool of "
        f"env_type='gymnasium', a VecEnv, or a PettingZoo environment; got {got}"
    )


def _looks_like_env(env: Any) -> bool:
    return hasattr(env, "step") and hasattr(env, "reset") and not isinstance(env, type)


def _is_monitored(env: gym.Env[Any, Any]) -> bool:
    """Also by class name, so that Stable-Baselines3's own Monitor counts."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, Monitor) or type(env).__name__ == "Monitor":
            return True
        env = env.env
    return False


def _monitored(env: gym.Env[Any, Any], monitor: bool) -> gym.Env[Any, Any]:
    env = with_numbers(env)
    return Monitor(env) if monitor and not _is_monitored(env) else env


def _of_list(environments: list[Any], monitor: bool) -> VecEnv:
    if is_petting_zoo(environments[0]) and not is_turn_based(environments[0]):
        return ParallelEnvAdapter(environments)
    single = [TurnBasedEnv(env) if is_petting_zoo(env) else require_gymnasium_env(env) for env in environments]
    return DummyVecEnv([partial(_monitored, env, monitor) for env in single])


def _say(message: str, verbose: int) -> None:
    if verbose >= 1:
        print(message)  # noqa: T201, asked for by verbose
