"""Vector environments of other libraries in the shape of a :class:`VecEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from proximo.data import Observation
from proximo.envs.state.capture import no_state
from proximo.envs.vector.flat_tuple import FlatTuple
from proximo.envs.vector.transpose import VecTransposeImage, needs_transpose
from proximo.envs.vector.vec_env import ForwardsToInner, VecEnv, VecEnvStepReturn, is_vecenv_wrapped
from proximo.envs.vector.vec_monitor import EpisodeTotals, VecMonitor
from proximo.envs.wrappers.monitor import Monitor
from proximo.functional.spaces import ObservationFlattener
from proximo.other_libraries import counts_as, real_class

_SB3 = "stable_baselines3.common"


class ForeignVecEnvAdapter(ForwardsToInner, VecEnv):
    """A vector environment of Stable-Baselines3's shape that is not one of this library's classes.

    The collector steps the adapter; ``model.get_env()`` shows what it holds, so that functions of that library find
    its wrappers around it. Episodes are counted here unless a monitor inside does it.
    """

    def __init__(self, venv: Any) -> None:
        """Arguments:
        venv: A vector environment with Stable-Baselines3's methods.
        """
        self.venv = venv
        self._flat = ObservationFlattener(venv.observation_space)
        super().__init__(venv.num_envs, self._flat.space, venv.action_space)
        self.metadata = getattr(venv, "metadata", self.metadata)
        self._totals = None if _is_monitored(venv) else EpisodeTotals(self.num_envs)

    @property
    def has_workers(self) -> bool:
        return hasattr(getattr(self.venv, "unwrapped", self.venv), "processes")

    def reset(self) -> Observation:
        observations = self.venv.reset()
        self.reset_infos = list(getattr(self.venv, "reset_infos", self.reset_infos))
        if self._totals is not None:
            self._totals.clear()
        return self._flat(observations)

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        infos = list(infos)
        if self._totals is not None:
            self._totals.add(rewards, None)
        for index in np.flatnonzero(dones).tolist():
            if self._totals is not None:
                infos[index] = {"episode": self._totals.take(index), **infos[index]}
            if "terminal_observation" in infos[index]:
                infos[index]["terminal_observation"] = self._flat(infos[index]["terminal_observation"])
        self.reset_infos = list(getattr(self.venv, "reset_infos", self.reset_infos))
        return self._flat(observations), np.asarray(rewards, np.float32), np.asarray(dones, bool), infos

    def environment_states(self) -> list[Any]:
        raise no_state(self.venv)

    def __getattr__(self, name: str) -> Any:
        if name == "venv" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.venv, name)


def without_adapter(env: Any) -> Any:
    """What the user gave: the environment that an adapter or a view without tuples holds, or any other one itself."""
    return env.venv if isinstance(env, ForeignVecEnvAdapter | FlatTuple) else env


def with_own_transposition(venv: Any) -> Any:
    """Transpose channels-last images of Stable-Baselines3's environments by its own wrapper, as its algorithms do."""
    wrapper = real_class(f"{_SB3}.vec_env.vec_transpose", "VecTransposeImage")
    if wrapper is None or not counts_as(venv, VecEnv) or not needs_transpose(venv.observation_space):
        return venv
    return venv if is_vecenv_wrapped(venv, VecTransposeImage) else wrapper(venv)


def _is_monitored(venv: Any) -> bool:
    """Whether the environments' own monitors, of either library, report the episodes."""
    if is_vecenv_wrapped(venv, VecMonitor):
        return True
    monitors = [kind for kind in (Monitor, real_class(f"{_SB3}.monitor", "Monitor")) if kind is not None]
    return hasattr(venv, "env_is_wrapped") and any(all(venv.env_is_wrapped(kind)) for kind in monitors)
