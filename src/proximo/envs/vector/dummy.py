"""Environments stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array, Info, Observation, StepArrays, observation_rows, write_observation
from proximo.envs.adapters.bullet import remember_bullet_functions
from proximo.envs.state.capture import get_environment_state, has_environment_state, set_environment_state
from proximo.envs.state.plain import join_rows, take_rows
from proximo.envs.vector.vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, copy_observation
from proximo.envs.wrappers.action_masker import EXPECTED_METHOD_NAME, MaskRows
from proximo.errors import NotAnEnvironmentError
from proximo.functional.spaces import ObservationFlattener, Space, check_for_nested_spaces, is_flat_tuple
from proximo.other_libraries import stands_for


@dataclass
class StepBuffers:
    """Where the outcome of a step is written; in shared memory when workers write it."""

    observations: Observation  # [env, …]
    rewards: Array  # [env] float32
    terminated: Array  # [env] bool
    truncated: Array  # [env] bool

    @staticmethod
    def layout(observation_space: Space, num_envs: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of every array; observations of a ``Dict`` space are named ``observations/<key>``."""
        check_for_nested_spaces(observation_space)
        parts = {"observations": observation_space}
        if isinstance(observation_space, spaces.Dict):
            parts = {f"observations/{key}": part for key, part in observation_space.spaces.items()}
        arrays = {name: ((num_envs, *_space_shape(part)), np.dtype(part.dtype)) for name, part in parts.items()}
        return arrays | {
            "rewards": ((num_envs,), np.dtype(np.float32)),
            "terminated": ((num_envs,), np.dtype(bool)),
            "truncated": ((num_envs,), np.dtype(bool)),
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, Array]) -> StepBuffers:
        """Take the arrays named by :meth:`layout`."""
        by_key = {name.split("/", 1)[1]: array for name, array in arrays.items() if name.startswith("observations/")}
        observations = arrays.get("observations", by_key)
        return cls(observations, arrays["rewards"], arrays["terminated"], arrays["truncated"])

    @classmethod
    def allocate(cls, observation_space: Space, num_envs: int) -> StepBuffers:
        """Arrays for so many environments of a space."""
        layout = cls.layout(observation_space, num_envs)
        return cls.of_arrays({name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()})

    def load_observations(self, observations: Observation) -> None:
        """Write saved observations into the arrays."""
        write_observation(self.observations, ..., observations)


def _space_shape(space: Space) -> tuple[int, ...]:
    if space.shape is None or space.dtype is None:
        raise NotImplementedError(
            f"{space} holds no arrays of fixed shape; use Box, Discrete, Multi… or a Dict of these"
        )
    return space.shape


class BufferedVecEnv(VecEnv):
    """A vector environment whose steps are written into :class:`StepBuffers`."""

    _buffers: StepBuffers

    def _shown(self, observations: Observation) -> Observation:
        """Arrays of a ``Tuple`` space as a tuple; the buffers have them under their numbers."""
        if not isinstance(self.observation_space, spaces.Tuple) or not isinstance(observations, dict):
            return observations
        return tuple(observations[str(index)] for index in range(len(self.observation_space)))  # type: ignore[return-value]

    def get_state(self, inner: bool = True) -> dict[str, Any]:
        latest = {"observations": copy_observation(self._buffers.observations)} if inner else {}
        return super().get_state(inner) | latest

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        if state:
            self._buffers.load_observations(state["observations"])

    def join_states(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {name: join_rows([state[name] for state in states]) for name in states[0]}  # all of it has rows

    def part_of_state(self, state: Mapping[str, Any], rows: slice) -> dict[str, Any]:
        return {name: take_rows(part, rows) for name, part in state.items()}


@stands_for("stable_baselines3.common.vec_env.dummy_vec_env", "DummyVecEnv")
class DummyVecEnv(BufferedVecEnv):
    """Step the environments in a plain loop: the quickest way when one step costs less than a message to a process.

    Observations of a Tuple space are tuples of arrays. What is nested deeper (Dict and Tuple in any order) is shown as
    one Dict, with names such as ``"sensors/camera"``.
    """

    actions: Any
    index_offset = 0  # index of the first environment, where this is a part of a larger vector environment
    _masks: MaskRows | None = None  # made when somebody first asks for masks

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env[Any, Any]]]) -> None:
        """Arguments:
        env_fns: Functions that make one environment each; each call must make a new one.
        """
        if not env_fns:
            raise ValueError("got no environment factories; pass at least one")
        self.num_envs = len(env_fns)
        self.envs: list[gym.Env[Any, Any]] = []
        for index, make in enumerate(env_fns):
            with self._blame(index):
                self.envs.append(require_gymnasium_env(make()))
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ValueError(
                "the factories returned the same environment twice; each call must make a new one, "
                "for example `lambda: gym.make(...)` instead of `lambda: env`"
            )
        first = self.envs[0]
        self._flat = ObservationFlattener(first.observation_space)
        shown = first.observation_space if is_flat_tuple(first.observation_space) else self._flat.space
        super().__init__(len(self.envs), shown, first.action_space)
        self.metadata = first.metadata
        self.bind(StepBuffers.allocate(self._flat.space, self.num_envs))

    def bind(self, buffers: StepBuffers) -> None:
        """Write outcomes into these buffers from now on."""
        self._buffers = buffers
        self._infos: list[Info] = [{} for _ in self.envs]
        self._final_observations: dict[int, Observation] = {}
        shown = self._shown(buffers.observations)
        self._quiet_step = StepArrays(shown, buffers.rewards, buffers.terminated, buffers.truncated, {}, {})

    def reset(self) -> VecEnvObs:
        for index in range(self.num_envs):
            self._reset_one(index, self._seeds[index], self._options[index])
        self._clear_ends()
        self._reset_seeds()
        self._reset_options()
        return copy_observation(self._quiet_step.observations)

    def _reset_one(self, index: int, seed: int | None, options: dict[str, Any]) -> None:
        with self._blame(index):
            given = {"options": options} if options else {}
            observation, self.reset_infos[index] = self.envs[index].reset(seed=seed, **given)
            remember_bullet_functions(self.envs[index])
            self._write(index, observation)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        self._advance(self.actions)
        buffers = self._buffers
        infos = [deepcopy(info) if info else {} for info in self._infos]  # an environment may reuse its dictionaries
        for index, info in enumerate(infos):
            if index not in self._final_observations:
                info["TimeLimit.truncated"] = False
        dones = buffers.terminated | buffers.truncated
        return copy_observation(self._quiet_step.observations), buffers.rewards.copy(), dones, infos

    def step_arrays(self, actions: Any) -> StepArrays:
        self._advance(actions)
        ended = self._final_observations
        if not ended:
            return self._quiet_step
        infos = {index: self._infos[index] for index in ended}
        return self._quiet_step._replace(final_observations=ended, infos=infos)

    def _advance(self, actions: Any) -> None:
        """Step every environment once, into the buffers."""
        if self._final_observations:
            self._clear_ends()
        self._step_all(actions, enumerate(self.envs))

    def _step_all(self, actions: Any, numbered_envs: Iterable[tuple[int, gym.Env[Any, Any]]]) -> None:
        """This loop is what training pays for per step."""
        observations, rewards, infos = self._buffers.observations, self._buffers.rewards, self._infos
        one_array = not isinstance(observations, dict)
        index = 0
        try:
            for index, env in numbered_envs:
                observation, rewards[index], terminated, truncated, infos[index] = env.step(actions[index])
                if terminated or truncated:
                    observation = self._end_episode(index, observation, bool(terminated))
                if one_array:
                    observations[index] = observation  # type: ignore[index]
                else:
                    self._write(index, observation)
        except Exception as error:
            self._note_failure(index, error)
            raise

    def _end_episode(self, index: int, observation: Any, terminated: bool) -> Any:
        """Keep the last observation, reset the environment, and return the first of its next episode."""
        buffers = self._buffers
        self._write(index, observation)
        # copied out of the buffer before the reset: an environment may reuse its observation array
        final = self._shown(copy_observation(observation_rows(buffers.observations, index)))
        self._final_observations[index] = final
        buffers.terminated[index] = terminated
        buffers.truncated[index] = not terminated
        ending = {"TimeLimit.truncated": not terminated, "terminal_observation": final}
        self._infos[index] = {**self._infos[index], **ending}
        first, self.reset_infos[index] = self.envs[index].reset()
        return first

    def _write(self, index: int, observation: Any) -> None:
        write_observation(self._buffers.observations, index, self._flat(observation))

    def _clear_ends(self) -> None:
        self._final_observations = {}
        self._buffers.terminated.fill(False)
        self._buffers.truncated.fill(False)

    def action_masks(self) -> Array:
        masks = self._mask_rows()
        try:
            return masks.read()
        except Exception as error:
            self._note_failure(masks.asked, error)
            raise

    def _mask_rows(self) -> MaskRows:
        if self._masks is None:  # looked up through the wrappers once, not at every step
            methods = self.get_attr(EXPECTED_METHOD_NAME)
            self._masks = MaskRows(methods, self.action_space, self.index_offset)
        return self._masks

    def share_masks(self, rows: Array) -> None:
        """Write masks [env, mask] into these rows from now on."""
        self._mask_rows().bind(rows)

    def environment_states(self) -> list[Any]:
        return self._each(None, get_environment_state)

    def set_environment_states(self, states: Sequence[Any]) -> list[str]:
        gaps: set[str] = set()
        for index, state in enumerate(states):
            with self._blame(index):
                gaps.update(set_environment_state(self.envs[index], state))
                remember_bullet_functions(self.envs[index])
        self._clear_ends()
        return sorted(gaps)

    def has_state(self) -> bool:
        return all(has_environment_state(env) for env in self.envs)

    @contextmanager
    def _blame(self, index: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._note_failure(index, error)
            raise

    def _note_failure(self, index: int, error: Exception) -> None:
        """Tell which environment it was, in the traceback and to a parent process."""
        index += self.index_offset
        error.add_note(f"raised by environment {index}")
        error.environment_index = index  # type: ignore[attr-defined]

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._each(indices, lambda env: env.get_wrapper_attr(attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._each(indices, lambda env: setattr(env, attr_name, value))
        if attr_name == EXPECTED_METHOD_NAME and self._masks is not None:
            self._masks.methods = self.get_attr(EXPECTED_METHOD_NAME)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self._each(indices, lambda env: env.get_wrapper_attr(method_name)(*method_args, **method_kwargs))

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return self._each(indices, lambda env: is_wrapped(env, wrapper_class))

    def _each(self, indices: VecEnvIndices, call: Callable[[gym.Env[Any, Any]], Any]) -> list[Any]:
        results = []
        for index in self._get_indices(indices):
            with self._blame(index):
                results.append(call(self.envs[index]))
        return results


def require_gymnasium_env(env: Any) -> gym.Env[Any, Any]:
    """``env`` itself if it is a gymnasium environment; an error that says what to do otherwise."""
    if isinstance(env, gym.Env):
        return env
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    if any(base.__module__.split(".")[0] == "gym" for base in type(env).__mro__):
        raise NotAnEnvironmentError(
            f"{kind} is an environment of the old gym package; port it to gymnasium.Env, "
            "or wrap it with shimmy (GymV26CompatibilityV0 or GymV21CompatibilityV0)"
        )
    if hasattr(env, "possible_agents"):
        raise NotAnEnvironmentError(
            f"{kind} is an environment of PettingZoo: pass it, or a list of factories, to as_vec_env"
        )
    raise NotAnEnvironmentError(f"expected a gymnasium.Env, got {kind}; derive the class from gymnasium.Env")


def unwrap_wrapper(
    env: gym.Env[Any, Any], wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]]
) -> gym.Wrapper[Any, Any, Any, Any] | None:
    """The outermost wrapper of that class around ``env``, or None."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, wrapper_class) or _has_counterpart(type(env), wrapper_class):
            return env
        env = env.env
    return None


def _has_counterpart(kind: type, wrapper_class: type) -> bool:
    """Whether a wrapper is Stable-Baselines3's and the class the library's of that name (Monitor, say), or reversed."""
    libraries = {"proximo", "stable_baselines3"}
    return any(
        base.__name__ == wrapper_class.__name__
        and {base.__module__.split(".")[0], wrapper_class.__module__.split(".")[0]} == libraries
        for base in kind.__mro__
    )


def is_wrapped(env: gym.Env[Any, Any], wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]]) -> bool:
    """Whether a wrapper of this class is around the environment."""
    return unwrap_wrapper(env, wrapper_class) is not None
