"""Vector environments that take and give tensors, as rllte's agents expect them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from proximo.data import Array, Info, Observation, StepArrays, TensorObservation
from proximo.envs.adapters.as_vec_env import as_vec_env
from proximo.envs.vector.vec_env import AUTORESET_KEY, VecEnv, copy_observation
from proximo.functional.spaces import obs_as_tensor


class TorchVecEnv:
    """A vector environment of the library (``vec_env``) behind tensors on ``device``.

    Spaces are those of a single environment. An ended environment has already been reset; its last observation and
    its infos are in ``infos["final_observation"]`` and ``infos["final_info"]``, object arrays [env] with None
    elsewhere, and returns and lengths of the ended episodes in ``infos["episode"]["r"]`` and ``["l"]``, [env] with 0
    elsewhere. Where an environment resets itself only at the step after (EnvPool), that step's row is no experience:
    ``infos["VecEnv.autoreset_only"]``, [env] bool, marks it.

    ``vec_env`` may be anything that :func:`proximo.envs.adapters.as_vec_env.as_vec_env` takes.
    """

    def __init__(self, vec_env: VecEnv | Any, device: torch.device | str = "cpu") -> None:
        """Arguments:
        vec_env: The vector environment that is stepped.
        device: Where tensors live: cpu, cuda, …
        """
        self.vec_env = as_vec_env(vec_env)
        if isinstance(self.vec_env.action_space, spaces.Dict | spaces.Tuple):
            raise TypeError(
                f"an action tensor cannot hold {self.vec_env.action_space}; "
                "Dict and Tuple actions need proximo.PPO and its vector environments"
            )
        self.observation_space = self.vec_env.observation_space
        self.action_space = self.vec_env.action_space
        self.num_envs = self.vec_env.num_envs
        self.device = torch.device(device)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[TensorObservation, Info]:
        """First observations [env, …] and gymnasium's vector infos; environment ``i`` is seeded with ``seed + i``."""
        if seed is not None:
            self.vec_env.seed(seed)
        if options is not None:
            self.vec_env.set_options(options)
        observations = self._tensors(self.vec_env.reset())
        return observations, gather_infos(dict(enumerate(self.vec_env.reset_infos)), self.num_envs)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorObservation, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Observations [env, …], rewards, terminateds, truncateds (each [env] float32) and infos, see the class."""
        shape = (self.num_envs, *(self.action_space.shape or ()))
        rows: Array = actions.detach().cpu().numpy().astype(self.action_space.dtype, copy=False).reshape(shape)
        step = self.vec_env.step_arrays(rows)
        infos: dict[str, Any] = {}
        if step.infos:
            infos = _ending_infos(step, self.num_envs)
        if step.valid is not None:
            infos[AUTORESET_KEY] = ~step.valid
        flags = (self._floats(step.terminated), self._floats(step.truncated))
        return self._tensors(step.observations), self._floats(step.rewards), *flags, infos

    def close(self) -> None:
        """Close all environments."""
        self.vec_env.close()

    def render(self, mode: str | None = None) -> Array | None:
        """A picture of all environments, tiled."""
        return self.vec_env.render(mode)

    @property
    def unwrapped(self) -> TorchVecEnv:
        """The vector environment behind it."""
        return self

    def _tensors(self, observations: Observation) -> TensorObservation:
        # a copy: the environment may write its next step over them
        return obs_as_tensor(copy_observation(observations), self.device)

    def _floats(self, values: Array) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)


def _ending_infos(step: StepArrays, num_envs: int) -> dict[str, Any]:
    """Vector infos of a step at which episodes ended."""
    shown = gather_infos({index: {"final_info": info} for index, info in step.infos.items()}, num_envs)
    finals = {index: {"final_observation": final} for index, final in step.final_observations.items()}
    shown.update(gather_infos(finals, num_envs))
    episodes = {index: info["episode"] for index, info in step.infos.items() if "episode" in info}
    if episodes:  # absent where the game goes on after a lost life
        shown["_episode"] = np.isin(np.arange(num_envs), list(episodes))
        shown["episode"] = {
            "r": _numbers({index: episode["r"] for index, episode in episodes.items()}, num_envs, np.float32),
            "l": _numbers({index: episode["l"] for index, episode in episodes.items()}, num_envs, np.int32),
        }
    return shown


def _numbers(values: Mapping[int, float], num_envs: int, dtype: Any) -> Array:
    numbers = np.zeros(num_envs, dtype)
    for index, value in values.items():
        numbers[index] = value
    return numbers


def gather_infos(infos: Mapping[int, Info], num_envs: int) -> dict[str, Any]:
    """Infos by environment as gymnasium's vector infos: for each key an object array [env], and who has it.

    >>> gather_infos({1: {"lives": 3}}, 2)
    {'lives': array([None, 3], dtype=object), '_lives': array([False,  True])}
    """
    gathered: dict[str, Any] = {}
    for index, info in infos.items():
        for key, value in info.items():
            if key not in gathered:
                gathered[key] = np.full(num_envs, None, object)
                gathered[f"_{key}"] = np.zeros(num_envs, bool)
            gathered[key][index] = value
            gathered[f"_{key}"][index] = True
    return gathered
