"""gymnasium's vector environments and EnvPool in the shape of a :class:`VecEnv`.

They reset ended environments in three ways (``metadata["autoreset_mode"]``):

* SAME_STEP: at once; the last observation is in ``infos["final_obs"]``. Same as here.
* NEXT_STEP: by the following step, which ignores that environment's action. The step that ended returns the last
  observation itself; the following row is no experience. ``step_arrays`` marks it in ``valid``; ``step`` cannot leave
  it out either, and marks it by ``infos[i]["VecEnv.autoreset_only"]``. EnvPool works like this too.
* DISABLED: not at all; the adapter resets the ended ones with ``options={"reset_mask": …}`` within the same step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array

from proximo.data import Array, Info, Observation, StepArrays, observation_rows
from proximo.envs.state.capture import (
    get_environment_state,
    get_vector_state,
    has_environment_state,
    has_vector_state,
    set_environment_state,
    set_vector_state,
)
from proximo.envs.vector.dummy import is_wrapped
from proximo.envs.vector.vec_env import AUTORESET_KEY, VecEnv, VecEnvIndices, VecEnvStepReturn, copy_observation
from proximo.envs.vector.vec_monitor import EpisodeTotals
from proximo.envs.wrappers.action_masker import EXPECTED_METHOD_NAME, MaskRows
from proximo.functional.actions import mask_rows
from proximo.functional.spaces import ObservationFlattener


class VectorEnvAdapter(VecEnv):
    """A gymnasium ``VectorEnv`` or an EnvPool in the shape of a :class:`VecEnv`, with episode statistics."""

    def __init__(self, vector_env: Any) -> None:
        """Arguments:
        vector_env: A gymnasium VectorEnv, of any autoreset mode, or an EnvPool.
        """
        self.vector_env = vector_env
        self.mode = _autoreset_mode(vector_env)
        self._ignores_seeds = is_env_pool(vector_env)
        self._flat = ObservationFlattener(vector_env.single_observation_space)
        super().__init__(vector_env.num_envs, self._flat.space, vector_env.single_action_space)
        self.metadata = {**self.metadata, **vector_env.metadata}
        self._totals = EpisodeTotals(self.num_envs)
        self._to_be_reset: list[int] = []  # by the next step, in mode NEXT_STEP
        self._no_flags = np.zeros(self.num_envs, bool)
        self._vector_infos: Info | None = None  # of the latest reset or step; they may hold action masks
        self._mask_rows: MaskRows | None = None
        self.actions: Any = None

    @property
    def resets_on_next_step(self) -> bool:
        return self.mode is AutoresetMode.NEXT_STEP

    @property
    def has_workers(self) -> bool:
        return isinstance(self.vector_env.unwrapped, AsyncVectorEnv)

    def reset(self) -> Observation:
        observations, infos = self._first_observations()
        self._reset_seeds()
        self._reset_options()
        self._totals.clear()
        self._to_be_reset = []
        self.reset_infos = [info_of(infos, index) for index in range(self.num_envs)]
        return copy_observation(observations)

    def _first_observations(self) -> tuple[Observation, Info]:
        observations, self._vector_infos = self.vector_env.reset(**self._reset_arguments())
        return self._flat(observations), self._vector_infos

    def _reset_arguments(self) -> dict[str, Any]:
        """gymnasium takes one seed and one dictionary of options for all."""
        arguments: dict[str, Any] = {}
        if self._seeds[0] is not None and not self._ignores_seeds:
            arguments["seed"] = self._seeds[0]
        if any(self._options):
            if any(options != self._options[0] for options in self._options):
                raise ValueError("a gymnasium VectorEnv takes the same reset options for all environments")
            arguments["options"] = self._options[0]
        return arguments

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        if seed is not None and self._ignores_seeds and self.vector_env.config.get("seed") != seed:
            warnings.warn("an EnvPool is seeded when it is made: envpool.make(…, seed=…)", stacklevel=2)
        return super().seed(seed)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        step, vector_infos = self._advance(self.actions)
        infos = [
            step.infos[index] if index in step.infos else self._info(vector_infos, index)
            for index in range(self.num_envs)
        ]
        for index, info in enumerate(infos):
            info.setdefault("TimeLimit.truncated", False)
            if step.valid is not None and not step.valid[index]:
                info[AUTORESET_KEY] = True
        # gymnasium's vector environments may reuse their memory (copy=False)
        return copy_observation(step.observations), step.rewards, step.terminated | step.truncated, infos

    def step_arrays(self, actions: Any) -> StepArrays:
        return self._advance(actions)[0]

    def _advance(self, actions: Any) -> tuple[StepArrays, Info]:
        observations, rewards, terminated, truncated, vector_infos = self.vector_env.step(self._batched(actions))
        observations, self._vector_infos = self._flat(observations), vector_infos
        rewards = np.asarray(rewards, np.float32)
        valid = self._valid_rows(vector_infos)
        self._totals.add(rewards, valid)
        ended: list[int] = (terminated | truncated).nonzero()[0].tolist()
        if not ended:
            return StepArrays(observations, rewards, self._no_flags, self._no_flags, {}, {}, valid), vector_infos
        final_observations = self._final_observations(observations, vector_infos, ended)
        infos = self._ending_infos(vector_infos, final_observations, terminated)
        if self.mode is AutoresetMode.NEXT_STEP:
            self._to_be_reset = ended
        elif self.mode is AutoresetMode.DISABLED:
            observations = self._reset_ended(ended)
        truncated = truncated & ~terminated
        return StepArrays(observations, rewards, terminated, truncated, final_observations, infos, valid), vector_infos

    def _batched(self, actions: Any) -> Any:
        """Actions [env, …] in one array, or for a Dict or Tuple of actions in such a structure of arrays."""
        space = self.action_space
        if isinstance(space, spaces.Dict | spaces.Tuple):
            return concatenate(space, actions, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]
        return np.asarray(actions, space.dtype).reshape(self.num_envs, *(space.shape or ()))

    def _valid_rows(self, vector_infos: Info) -> Array | None:
        """None, or False where this step only reset the environment."""
        if not self._to_be_reset:
            return None
        valid = np.ones(self.num_envs, bool)
        valid[self._to_be_reset] = False
        for index in self._to_be_reset:
            self.reset_infos[index] = info_of(vector_infos, index)
        self._to_be_reset = []
        return valid

    def _final_observations(
        self, observations: Observation, vector_infos: Info, ended: list[int]
    ) -> dict[int, Observation]:
        if self.mode is not AutoresetMode.SAME_STEP:
            return {index: copy_observation(observation_rows(observations, index)) for index in ended}
        final = vector_infos.get("final_obs", vector_infos.get("final_observation"))
        if final is None:
            raise ValueError(
                f"{self.vector_env} declares SAME_STEP autoreset but its infos lack 'final_obs' at an episode's end"
            )
        if isinstance(final, dict | tuple):  # of arrays
            return {index: observation_rows(self._flat(final), index) for index in ended}
        return {index: self._flat(final[index]) for index in ended}

    def _ending_infos(
        self, vector_infos: Info, final_observations: dict[int, Observation], terminated: Array
    ) -> dict[int, Info]:
        infos = {}
        for index, final in final_observations.items():
            info = self._info(vector_infos, index)
            episode = info.pop("episode", None)
            if self.mode is AutoresetMode.SAME_STEP:  # the rest of it is of the reset that followed
                self.reset_infos[index] = info
                info = info_of(vector_infos.get("final_info", {}), index)
            own_episode = self._totals.take(index)
            info.setdefault("episode", episode or own_episode)
            info["TimeLimit.truncated"] = not terminated[index]
            info["terminal_observation"] = final
            infos[index] = info
        return infos

    def _info(self, vector_infos: Info, index: int) -> Info:
        """One environment's info, without what autoreset keeps there."""
        hidden = ("final_obs", "final_observation", "final_info")
        return {key: value for key, value in info_of(vector_infos, index).items() if key not in hidden}

    def _reset_ended(self, ended: list[int]) -> Observation:
        mask = np.zeros(self.num_envs, bool)
        mask[ended] = True
        observations, vector_infos = self.vector_env.reset(options={"reset_mask": mask})
        self._vector_infos = vector_infos
        for index in ended:
            self.reset_infos[index] = info_of(vector_infos, index)
        return self._flat(observations)

    def get_state(self, inner: bool = True) -> dict[str, Any]:
        if not inner:
            return {}
        vector = get_vector_state(self.vector_env)
        masks = self._masks_in_infos()  # what the next action may be, where the latest infos tell
        own = {"vector": vector, "totals": self._totals.state(), "to_be_reset": list(self._to_be_reset)}
        return super().get_state() | own | {"masks": None if masks is None else mask_rows(masks, self.action_space)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        if state:
            set_vector_state(self.vector_env, state["vector"])
            self._totals.load_state(state["totals"])
            self._to_be_reset = list(state["to_be_reset"])
            self._vector_infos = {} if state["masks"] is None else {EXPECTED_METHOD_NAME: state["masks"].copy()}

    def environment_states(self) -> list[Any]:
        return [get_environment_state(env) for env in self._single_envs or []]

    def set_environment_states(self, states: Sequence[Any]) -> list[str]:
        pairs = zip(self._single_envs or [], states, strict=True)
        return sorted({gap for env, state in pairs for gap in set_environment_state(env, state)})

    def has_state(self) -> bool:
        return has_vector_state(self.vector_env) and all(map(has_environment_state, self._single_envs or []))

    def close(self) -> None:
        self.vector_env.close()

    def get_images(self) -> Sequence[Array | None]:
        images = self.vector_env.render()
        return [None] * self.num_envs if images is None else list(images)

    def action_masks(self) -> Array:
        """From the environments one by one, the vector environment's own ``action_masks``, or its infos."""
        masks = self._read_masks()
        if self._to_be_reset:  # the next action there is ignored, and an ended game may allow none
            masks = masks.copy()
            masks[self._to_be_reset] = True
        return masks

    def _read_masks(self) -> Array:
        if self._single_envs is not None and self._mask_rows is None:
            self._mask_rows = MaskRows(self.get_attr(EXPECTED_METHOD_NAME), self.action_space)
        if self._mask_rows is not None:
            return self._mask_rows.read()
        masks = self._found(EXPECTED_METHOD_NAME)
        if masks is None:
            masks = self._masks_in_infos()
        if masks is None:
            masks = self._require("call")(EXPECTED_METHOD_NAME)
        rows = masks() if callable(masks) else masks
        return mask_rows(rows, self.action_space)

    def _masks_in_infos(self) -> Any:
        infos = self._vector_infos or {}
        return infos.get(EXPECTED_METHOD_NAME, infos.get("action_mask"))

    def has_attr(self, attr_name: str) -> bool:
        if self._single_envs is not None:
            return all(env.has_wrapper_attr(attr_name) for env in self._single_envs)
        if self._found(attr_name) is not None:
            return True
        call = self._found("call")
        if call is not None:  # asking worker processes for what they lack would end them
            return all(call("has_wrapper_attr", attr_name))
        if attr_name != EXPECTED_METHOD_NAME:
            return False
        if self._vector_infos is None:
            self._first_observations()  # to see its infos; the reset that follows uses the same seeds
        return self._masks_in_infos() is not None

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        if self._single_envs is not None:
            return [self._single_envs[index].get_wrapper_attr(attr_name) for index in self._get_indices(indices)]
        if hasattr(self.vector_env, attr_name):
            return [getattr(self.vector_env, attr_name) for _ in self._get_indices(indices)]
        values = self._require("get_attr")(attr_name)
        return [values[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        if self._single_envs is not None:
            for index in self._get_indices(indices):
                setattr(self._single_envs[index], attr_name, value)
            return
        values = self.get_attr(attr_name)
        for index in self._get_indices(indices):
            values[index] = value
        self._require("set_attr")(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        if self._single_envs is not None:
            methods = [self._single_envs[index].get_wrapper_attr(method_name) for index in self._get_indices(indices)]
            return [method(*method_args, **method_kwargs) for method in methods]
        if indices is not None and set(self._get_indices(indices)) != set(range(self.num_envs)):
            raise NotImplementedError(f"{self.vector_env} calls methods on all of its environments or none")
        return list(self._require("call")(method_name, *method_args, **method_kwargs))

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        environments = self._single_envs
        return [
            environments is not None and is_wrapped(environments[index], wrapper_class)
            for index in self._get_indices(indices)
        ]

    @property
    def _single_envs(self) -> list[gym.Env[Any, Any]] | None:
        """The environments themselves, where they live in this process one by one."""
        return getattr(getattr(self.vector_env, "unwrapped", self.vector_env), "envs", None)

    def _found(self, name: str) -> Any:
        """An attribute of the vector environment, or of the innermost one: gymnasium's wrappers pass none on."""
        outer = self.vector_env
        return getattr(outer, name, getattr(getattr(outer, "unwrapped", outer), name, None))

    def _require(self, name: str) -> Callable[..., Any]:
        method = self._found(name)
        if method is None:
            raise AttributeError(f"{type(self.vector_env).__name__} gives no access to single environments ({name})")
        return method


def _autoreset_mode(vector_env: Any) -> AutoresetMode:
    mode = vector_env.metadata.get("autoreset_mode")
    if mode is None:
        if not is_env_pool(vector_env):
            warnings.warn(
                f"{vector_env} does not declare metadata['autoreset_mode']; taking gymnasium's default, NEXT_STEP",
                stacklevel=5,
            )
        return AutoresetMode.NEXT_STEP
    return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)


def info_of(vector_infos: Info, index: int) -> Info:
    """One environment's part of gymnasium's vector infos: arrays by key, ``_key`` telling who has it.

    >>> info_of({"score": np.array([1, 2]), "_score": np.array([True, False])}, 0)
    {'score': np.int64(1)}
    """
    info: Info = {}
    for key, value in vector_infos.items():
        if key.startswith("_") and key[1:] in vector_infos:
            continue
        has_it = vector_infos.get(f"_{key}")
        if has_it is not None and not has_it[index]:
            continue
        if isinstance(value, dict):
            info[key] = info_of(value, index)
        else:
            info[key] = value[index] if isinstance(value, np.ndarray | list | tuple) and len(value) > index else value
    return info


def is_env_pool(env: Any) -> bool:
    """Recognised by shape, so that envpool is never imported here; its dm_env and gym flavours are refused."""
    if not all(hasattr(env, name) for name in ("config", "send", "recv", "async_reset", "all_env_ids")):
        return False
    if not hasattr(env, "single_observation_space"):
        raise TypeError(f"{type(env).__name__} is an EnvPool of another flavour; make it with env_type='gymnasium'")
    if env.is_async:
        raise TypeError(
            "an EnvPool with batch_size below num_envs steps only some at a time; make it without batch_size"
        )
    return True
