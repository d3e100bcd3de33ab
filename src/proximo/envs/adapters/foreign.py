"""Vector environments of other libraries in the shape of a :class:`VecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from proximo.data import Array, Observation
from proximo.envs.state.capture import (
    no_state,
)
from proximo.envs.vector.vec_env import (
    VecEnv,
    VecEnvIndices,
    VecEnvStepReturn,
)
from proximo.envs.vector.vec_monitor import EpisodeTotals
from proximo.functional.spaces import ObservationFlattener


class ForeignVecEnvAdapter(VecEnv):
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

    def close(self) -> None:
        self.venv.close()

    def has_attr(self, attr_name: str) -> bool:
        return self.venv.has_attr(attr_name)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return self.venv.seed(seed)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        self.venv.set_options(options)

    def get_images(self) -> Sequence[Array | None]:
        return self.venv.get_images()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return self.venv.env_is_wrapped(wrapper_class, indices=indices)
