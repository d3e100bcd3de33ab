"""Vector environments of other libraries in the shape of a :class:`VecEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from proximo.data import Observation
from proximo.envs.state.capture import no_state
from proximo.envs.vector.vec_env import ForwardsToInner, VecEnv, VecEnvStepReturn
from proximo.envs.vector.vec_monitor import EpisodeTotals
from proximo.functional.spaces import ObservationFlattener


class ForeignVecEnvAdapter(ForwardsToInner, VecEnv):
    """A vector environment of Stable-Baselines3's shape that is not one of this library's classes."""

    def __init__(self, venv: Any) -> None:
        self.venv = venv
        self._flat = ObservationFlattener(venv.observation_space)
        super().__init__(venv.num_envs, self._flat.space, venv.action_space)
        self.metadata = getattr(venv, "metadata", self.metadata)
        self._totals = EpisodeTotals(self.num_envs)

    def reset(self) -> Observation:
        observations = self.venv.reset()
        self.reset_infos = list(getattr(self.venv, "reset_infos", self.reset_infos))
        self._totals.clear()
        return self._flat(observations)

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        self._totals.add(rewards, None)
        infos = list(infos)
        for index in np.flatnonzero(dones).tolist():
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
