"""The vector environment: several environments stepped together, and the base of everything that wraps one.

Two ways to step, one meaning:

* ``step(actions)`` gives Stable-Baselines3's ``(observations, rewards, dones, infos)``, one info dictionary per
  environment, everything the caller's own to keep;
* ``step_arrays(actions)`` gives :class:`proximo.data.StepArrays`: arrays that the next step may overwrite, and infos
  only of the environments whose episode ended. Training and evaluation use this one.

A class that changes ``step``, ``step_async`` or ``step_wait`` and says nothing of ``step_arrays`` gets a
``step_arrays`` that goes through ``step``, so code written for Stable-Baselines3 is never bypassed.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, ClassVar, TypeAlias, TypeVar

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np

from proximo.data import Array, Info, Observation, StepArrays
from proximo.envs.rendering import show_image, tile_images
from proximo.envs.state.capture import no_state
from proximo.envs.state.plain import join_rows, plain_copy, take_rows
from proximo.errors import ArgumentValueError, EnvironmentStateError
from proximo.functional.actions import mask_rows
from proximo.functional.spaces import Space
from proximo.other_libraries import counts_as, stands_for

VecEnvIndices: TypeAlias = int | Iterable[int] | None
VecEnvObs: TypeAlias = Observation
VecEnvStepReturn: TypeAlias = tuple[Observation, Array, Array, list[Info]]
WrapperType = TypeVar("WrapperType", bound="VecEnvWrapper")

AUTORESET_KEY = "VecEnv.autoreset_only"
"""Info key set by ``step`` where the environment was only reset and the action ignored (``StepArrays.valid`` False)."""

_STEP_METHODS = ("step", "step_async", "step_wait")


def arrays_from_step(observations: Observation, rewards: Array, dones: Array, infos: Sequence[Info]) -> StepArrays:
    """Split a four-tuple step: a done is a truncation where its info says ``TimeLimit.truncated``, else a termination.

    A truncation whose info lacks ``terminal_observation`` counts as a termination: its value cannot be bootstrapped.

    >>> infos = [{}, {"TimeLimit.truncated": True, "terminal_observation": np.zeros(1)}]
    >>> step = arrays_from_step(np.ones((2, 1)), np.ones(2, np.float32), np.array([False, True]), infos)
    >>> step.terminated, step.truncated, sorted(step.final_observations)
    (array([False, False]), array([False,  True]), [1])
    """
    terminated = np.array(dones, bool)
    truncated = np.zeros(len(terminated), bool)
    final_observations: dict[int, Observation] = {}
    ended_infos: dict[int, Info] = {}
    for index in terminated.nonzero()[0].tolist():
        info = ended_infos[index] = infos[index]
        final = info.get("terminal_observation")
        if final is not None:
            final_observations[index] = final
            truncated[index] = info.get("TimeLimit.truncated", False)
    terminated &= ~truncated
    valid = None
    if any(AUTORESET_KEY in info for info in infos):
        valid = np.array([not info.get(AUTORESET_KEY, False) for info in infos])
    rewards = np.asarray(rewards, np.float32)
    return StepArrays(observations, rewards, terminated, truncated, final_observations, ended_infos, valid)


def map_final_observations(
    step: StepArrays, function: Callable[[Observation], Observation]
) -> Mapping[int, Observation]:
    """Apply ``function`` to the final observations, and to their copies in the infos."""
    if not step.final_observations:
        return step.final_observations
    mapped = {index: function(observation) for index, observation in step.final_observations.items()}
    for index, observation in mapped.items():
        step.infos[index]["terminal_observation"] = observation
    return mapped


def copy_observation(observation: Observation) -> Observation:
    """A copy with the memory layout kept: a transposed image stays a view of contiguous planes."""
    if isinstance(observation, dict):
        return {key: value.copy(order="K") for key, value in observation.items()}
    if isinstance(observation, tuple):  # as vector environments show those of a Tuple space
        return tuple(copy_observation(part) for part in observation)
    return observation.copy(order="K")


@stands_for("stable_baselines3.common.vec_env.base_vec_env", "VecEnv")
class VecEnv(ABC):
    """Several environments of equal spaces that step together and reset themselves at the end of an episode.

    At such an end, ``infos[i]`` holds ``terminal_observation`` (the last of the episode; the returned one opens the
    next), ``TimeLimit.truncated``, and ``episode`` where a monitor is in place. ``reset_infos[i]`` is what the
    environment's latest reset said. Seeds and options are used by the next ``reset()`` and then forgotten.
    """

    reset_infos: list[Info]
    state_gaps: Sequence[str] = ()  # attributes that were missing when a state was last put back

    def __init__(self, num_envs: int, observation_space: Space, action_space: Space) -> None:
        """Arguments:
        num_envs: Number of environments.
        observation_space: The space of one environment's observation.
        action_space: The space of one environment's action.
        """
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.reset_infos = [{} for _ in range(num_envs)]
        self._seeds: list[int | None] = []
        self._options: list[dict[str, Any]] = []
        self._reset_seeds()
        self._reset_options()
        self._read_render_mode()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__:
            if "step_arrays" in base.__dict__:
                return
            if any(method in base.__dict__ for method in _STEP_METHODS):
                cls.step_arrays = VecEnv.step_arrays  # type: ignore[method-assign]
                return

    def _read_render_mode(self) -> None:
        try:
            render_modes = self.get_attr("render_mode")
        except AttributeError:
            warnings.warn("the environment has no render_mode; taking None", stacklevel=4)
            render_modes = [None]
        if any(mode != render_modes[0] for mode in render_modes):
            raise ArgumentValueError(f"all environments must have the same render_mode, got {render_modes}")
        self.render_mode: str | None = render_modes[0]
        shown = {None: [], "rgb_array": ["human", "rgb_array"]}.get(self.render_mode, [self.render_mode])
        self.metadata: dict[str, Any] = {"render_modes": shown}

    def _reset_seeds(self) -> None:
        self._seeds = [None] * self.num_envs

    def _reset_options(self) -> None:
        self._options = [{} for _ in range(self.num_envs)]

    @abstractmethod
    def reset(self) -> VecEnvObs:
        """Reset all environments and return their first observations, [env, …]."""

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Start a step with ``actions`` [env, …]; ``step_wait`` gives its outcome."""

    @abstractmethod
    def step_wait(self) -> VecEnvStepReturn:
        """Observations, rewards, dones and infos of the step begun by ``step_async``."""

    @abstractmethod
    def close(self) -> None:
        """Free what the environments hold."""

    @abstractmethod
    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of each environment, looked up through its wrappers."""

    @abstractmethod
    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute on each environment's outermost wrapper."""

    @abstractmethod
    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment, looked up through its wrappers."""

    @abstractmethod
    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Whether each environment has a wrapper of that class."""

    @property
    def resets_on_next_step(self) -> bool:
        """Whether an ended environment is reset by the step *after* (gymnasium's NEXT_STEP), whose row is not valid."""
        return False

    @property
    def has_workers(self) -> bool:
        """Whether other processes step the environments, and need the cores for it."""
        return False

    def step(self, actions: Any) -> VecEnvStepReturn:
        """Step every environment once: observations, rewards, ends and infos."""
        self.step_async(actions)
        return self.step_wait()

    def step_arrays(self, actions: Any) -> StepArrays:
        """Step without the costs of a four-tuple; see :class:`proximo.data.StepArrays`."""
        return arrays_from_step(*self.step(actions))

    def action_masks(self) -> Array:
        """What the environments' ``action_masks()`` allow now: [env, mask] bool, which the next call may overwrite."""
        return mask_rows(self.env_method("action_masks"), self.action_space)

    def has_attr(self, attr_name: str) -> bool:
        """Whether every environment has the attribute."""
        try:
            self.get_attr(attr_name)
        except AttributeError:
            return False
        return True

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Give environment ``i`` the seed ``seed + i`` at the next reset; without a seed, draw one from NumPy."""
        if seed is None:
            seed = int(np.random.randint(0, np.iinfo(np.uint32).max, dtype=np.uint32))  # noqa: NPY002, user-seedable
        self._seeds = [seed + index for index in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Give these options, one dictionary for all or one per environment, to the next reset."""
        if options is None or isinstance(options, dict):
            options = [options or {}] * self.num_envs
        if len(options) != self.num_envs:
            raise ValueError(f"got options for {len(options)} environments, expected {self.num_envs}")
        self._options = [deepcopy(each) for each in options]

    def get_images(self) -> Sequence[Array | None]:
        """One RGB image per environment, if they were made with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"images need render_mode='rgb_array', the environments have {self.render_mode!r}", stacklevel=2
            )
            return [None] * self.num_envs
        return self.env_method("render")

    def render(self, mode: str | None = None) -> Array | None:
        """Draw all environments: one tiled image for ``rgb_array``, a window for ``human``.

        The mode is chosen when the environments are made; ``human`` also shows environments made for ``rgb_array``.
        """
        if self.render_mode is None:
            warnings.warn("cannot render: the environments were made without a render_mode", stacklevel=2)
            return None
        mode = mode or self.render_mode
        if mode != self.render_mode and (mode, self.render_mode) != ("human", "rgb_array"):
            warnings.warn(
                f"cannot render as {mode!r}: the environments were made with render_mode={self.render_mode!r}",
                stacklevel=2,
            )
            return None
        if self.render_mode != "rgb_array":
            self.env_method("render")
            return None
        image = tile_images([image for image in self.get_images() if image is not None])
        if mode == "rgb_array":
            return image
        show_image(image)
        return None

    def get_state(self, inner: bool = True) -> dict[str, Any]:
        """All that decides what later steps give, as plain values and arrays in dictionaries, lists and tuples.

        With ``inner=False`` only what the wrappers around the vector environment keep, such as running statistics:
        enough where the environments themselves are seeded and reset. ``EnvironmentStateError`` names the
        environment or wrapper whose state cannot be taken. A reset info that is no plain data is left out.
        """
        if not inner:
            return {}
        return {
            "environments": self.environment_states(),
            "seeds": plain_copy(list(self._seeds), "seeds for the next reset"),
            "options": plain_copy(self._options, "options for the next reset"),
            "reset_infos": [_plain_info(info) for info in self.reset_infos],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`get_state` gave, here or in another process; without the inner part if it has none."""
        if not state:
            return
        if "environments" not in state or len(state["seeds"]) != self.num_envs:
            what = f"{len(state['seeds'])} environments" if "seeds" in state else "a wrapper"
            raise EnvironmentStateError(
                f"the state is of {what}, here are {self.num_envs} environments without wrapper; make and wrap them as "
                "they were when it was taken"
            )
        self.state_gaps = self.set_environment_states(state["environments"]) or []
        self._seeds = deepcopy(state["seeds"])
        self._options = deepcopy(state["options"])
        self.reset_infos = deepcopy(state["reset_infos"])

    def join_states(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The states of vector environments like this one in several processes, as that of one with all of them."""
        raise EnvironmentStateError(
            f"the states of {_class_name(self)} in several processes cannot be joined to that of one; use DummyVecEnv "
            "or SubprocVecEnv, or resume in boundary mode"
        )

    def part_of_state(self, state: Mapping[str, Any], rows: slice) -> dict[str, Any]:
        """The state of some of the environments, of what :meth:`join_states` gave; the reverse of that."""
        raise EnvironmentStateError(f"the state of {_class_name(self)} cannot be shared out to several processes")

    def environment_states(self) -> list[Any]:
        """The state of every environment."""
        raise no_state(self)

    def set_environment_states(self, states: Sequence[Any]) -> list[str] | None:
        """Put every environment into its state; gives the attributes that are missing there or here, if any."""
        raise no_state(self)

    def has_state(self) -> bool:
        """Whether :meth:`get_state` knows every environment and wrapper here; cheaper than asking for the state."""
        return False

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector environment."""
        return self

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """Name of the class that hides an attribute already found further out, if any."""
        return _class_name(self) if already_found and hasattr(self, name) else None

    def _get_indices(self, indices: VecEnvIndices) -> Iterable[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else indices


class ForwardsToInner:
    """Hands on what a vector environment is asked about its environments to the one inside, ``venv``."""

    venv: Any

    def close(self) -> None:
        """Close the inner one."""
        self.venv.close()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next reset of the inner one."""
        return self.venv.seed(seed)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Options for the next reset of the inner one."""
        self.venv.set_options(options)

    def get_images(self) -> Sequence[Array | None]:
        """A picture of each environment."""
        return self.venv.get_images()

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environments have this attribute."""
        return self.venv.has_attr(attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the environments, a list."""
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of the environments."""
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environments, and list what they return."""
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Whether each environment has a wrapper of this class."""
        return self.venv.env_is_wrapped(wrapper_class, indices=indices)


@stands_for("stable_baselines3.common.vec_env.base_vec_env", "VecEnvWrapper")
class VecEnvWrapper(ForwardsToInner, VecEnv):
    """A vector environment around another; what it does not define comes from the inner one.

    Override ``reset`` and ``step_wait`` as in Stable-Baselines3, or, to stay on the quick path, derive from
    :class:`StepTransform` instead.
    """

    rows_in_state: ClassVar[tuple[tuple[str, ...], ...] | None] = None
    """Where :meth:`own_state` has a row for each environment (keys, from the outermost): needed by many processes."""

    def __init__(self, venv: VecEnv, observation_space: Space | None = None, action_space: Space | None = None) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        observation_space: What the wrapper shows; None is the inner one.
        action_space: What the wrapper takes; None is the inner one.
        """
        if not isinstance(venv, VecEnv) and counts_as(venv, VecEnv):  # one of Stable-Baselines3's own
            from proximo.envs.adapters.foreign import ForeignVecEnvAdapter  # which needs this module

            venv = ForeignVecEnvAdapter(venv)
        if not isinstance(venv, VecEnv):
            raise TypeError(
                f"{type(self).__name__} wraps a proximo VecEnv, got {type(venv).__module__}.{type(venv).__name__}; "
                "pass it through proximo.envs.as_vec_env first"
            )
        self.venv = venv
        self.num_envs = venv.num_envs
        self.observation_space = observation_space or venv.observation_space
        self.action_space = action_space or venv.action_space
        self._read_render_mode()

    @property
    def reset_infos(self) -> list[Info]:
        """What the latest reset of each environment said."""
        return self.venv.reset_infos

    @reset_infos.setter
    def reset_infos(self, infos: list[Info]) -> None:
        self.venv.reset_infos = infos

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    @abstractmethod
    def reset(self) -> VecEnvObs: ...

    @abstractmethod
    def step_wait(self) -> VecEnvStepReturn: ...

    # a subclass with a constructor of its own may hold something that is no VecEnv, as SuperSuit's does

    @property
    def resets_on_next_step(self) -> bool:
        return bool(getattr(self.venv, "resets_on_next_step", False))

    @property
    def has_workers(self) -> bool:
        return bool(getattr(self.venv, "has_workers", False))

    def render(self, mode: str | None = None) -> Array | None:
        return self.venv.render(mode)

    def action_masks(self) -> Array:
        return self.venv.action_masks()

    def own_state(self) -> dict[str, Any]:
        """What this wrapper itself keeps from one step to the next, as plain data; ``{}`` if it keeps nothing."""
        raise EnvironmentStateError(
            f"{_class_name(self)} does not give its state; define own_state() and set_own_state(state) in it "
            "(own_state returns {} if it keeps nothing from step to step), or resume in boundary mode"
        )

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`own_state` gave."""

    def get_state(self, inner: bool = True) -> dict[str, Any]:
        # left alone, a wrapper that tells nothing counts with the environments: a reset is to determine it
        own = self.own_state() if inner or self._gives_state() else {}
        return {"wrapper": type(self).__name__, "own": own, "inner": self.venv.get_state(inner)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        if state.get("wrapper") != type(self).__name__:
            raise EnvironmentStateError(
                f"the state is of {state.get('wrapper', 'a vector environment without wrapper')}, here is "
                f"{type(self).__name__}; wrap the environments as they were when it was taken"
            )
        self.venv.set_state(state["inner"])
        if state["own"]:
            self.set_own_state(state["own"])

    def join_states(self, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        own = deepcopy(states[0]["own"])
        for path in self._paths_to_rows(own):
            _put(own, path, join_rows([_at(state["own"], path) for state in states]))
        inner = self.venv.join_states([state["inner"] for state in states])
        return {"wrapper": states[0]["wrapper"], "own": own, "inner": inner}

    def part_of_state(self, state: Mapping[str, Any], rows: slice) -> dict[str, Any]:
        own = deepcopy(state["own"])
        for path in self._paths_to_rows(own):
            _put(own, path, take_rows(_at(own, path), rows))
        return {"wrapper": state["wrapper"], "own": own, "inner": self.venv.part_of_state(state["inner"], rows)}

    def _paths_to_rows(self, own: Mapping[str, Any]) -> list[tuple[str, ...]]:
        if own and self.rows_in_state is None:
            raise EnvironmentStateError(
                f"{_class_name(self)} does not say what of its state belongs to single environments, which several "
                "processes must know; name that in rows_in_state, such as (('frames',),), or () if there is none"
            )
        return [path for path in self.rows_in_state or () if path[0] in own]

    def has_state(self) -> bool:
        return self._gives_state() and self.venv.has_state()

    def _gives_state(self) -> bool:
        return type(self).own_state is not VecEnvWrapper.own_state

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector environment."""
        return self.venv.unwrapped

    def __getattr__(self, name: str) -> Any:
        if name == "venv" or name.startswith("__"):  # not yet built, or probed by copy and pickle
            raise AttributeError(f"{_class_name(self)} has no attribute {name!r}")
        hidden_in = self.getattr_depth_check(name, already_found=False)
        if hidden_in is not None:
            raise AttributeError(
                f"attribute {name!r} looked up from {_class_name(self)} is ambiguous: "
                f"an inner wrapper hides the one of {hidden_in}; take it from the wrapper you mean"
            )
        return self.getattr_recursive(name)

    def getattr_recursive(self, name: str) -> Any:
        """The attribute of the first wrapper inwards that has it."""
        if self._owns(name) or not isinstance(self.venv, VecEnvWrapper):
            return getattr(self if self._owns(name) else self.venv, name)
        return self.venv.getattr_recursive(name)

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        owns = self._owns(name)
        if owns and already_found:
            return _class_name(self)
        return self.venv.getattr_depth_check(name, already_found or owns)

    def _owns(self, name: str) -> bool:
        return name in self.__dict__ or hasattr(type(self), name)


class StepTransform(VecEnvWrapper):
    """A wrapper whose effect on a step is one function of its arrays, shared by ``step_wait`` and ``step_arrays``."""

    @abstractmethod
    def transform(self, step: StepArrays) -> StepArrays:
        """The step as this wrapper shows it; final observations change through :func:`map_final_observations`."""

    def step_arrays(self, actions: Any) -> StepArrays:
        return self.transform(self.venv.step_arrays(actions))

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        # the infos of ended episodes are the same dictionaries in both, so what `transform` writes is seen here
        step = self.transform(arrays_from_step(observations, rewards, dones, infos))
        return step.observations, step.rewards, dones, list(infos)


class ObservationTransform(StepTransform):
    """A wrapper that shows observations through one function, and keeps nothing from one step to the next."""

    rows_in_state = ()

    @abstractmethod
    def show(self, observations: Any) -> Any:
        """Observations, a batch or those of one environment, as this wrapper shows them."""

    def reset(self) -> VecEnvObs:
        return self.show(self.venv.reset())

    def transform(self, step: StepArrays) -> StepArrays:
        finals = map_final_observations(step, self.show)
        return step._replace(observations=self.show(step.observations), final_observations=finals)

    def own_state(self) -> dict[str, Any]:
        return {}


class CloudpickleWrapper:
    """Carry any Python object, lambdas and closures too, through ``pickle``."""

    def __init__(self, var: Any) -> None:
        """Arguments:
        var: The object.
        """
        self.var = var

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.var)

    def __setstate__(self, data: bytes) -> None:
        self.var = cloudpickle.loads(data)


def unwrap_vec_wrapper(env: VecEnv, vec_wrapper_class: type[WrapperType]) -> WrapperType | None:
    """The outermost wrapper of that class around ``env``, or None."""
    layer: Any = env
    while (inner := getattr(layer, "venv", None)) is not None:  # also through those of Stable-Baselines3
        if counts_as(layer, vec_wrapper_class):
            return layer
        layer = inner
    return None


def is_vecenv_wrapped(env: VecEnv, vec_wrapper_class: type[VecEnvWrapper]) -> bool:
    """Whether a wrapper of this class is around the vector environment."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def _plain_info(info: Info) -> Any:
    try:
        return plain_copy(info, "info")
    except EnvironmentStateError:  # it only tells of the past
        return {}


def _at(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    return reduce(getitem, path, tree)


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    _at(tree, path[:-1])[path[-1]] = value


def _class_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__name__}"
