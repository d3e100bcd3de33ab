"""Show the latest observations together."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from proximo.data import Array, Info, Observation, StepArrays
from proximo.envs.vector.vec_env import StepTransform, VecEnv, VecEnvStepReturn, arrays_from_step, copy_observation
from proximo.errors import ArgumentTypeError, ArgumentValueError
from proximo.functional.spaces import Space, is_image_space, is_image_space_channels_first
from proximo.other_libraries import stands_for


class _BoxStack:
    """The last ``n_stack`` observations of each environment, side by side along their channel axis.

    They are kept with that axis first and shown with it where it belongs: a shift then moves whole planes, and
    transposing channels-last images afterwards gives back contiguous memory. Two arrays take turns, so what was shown
    last stays intact for one more step.
    """

    def __init__(self, num_envs: int, n_stack: int, space: spaces.Box, channels_order: str | None) -> None:
        _, self.shown_axis, _, axis = StackedObservations.compute_stacking(n_stack, space, channels_order)
        self.space = spaces.Box(
            np.repeat(space.low, n_stack, axis=axis), np.repeat(space.high, n_stack, axis=axis), dtype=space.dtype.type
        )
        self.width = space.shape[axis]
        planes = np.moveaxis(np.empty(self.space.shape, np.bool_), axis, 0).shape
        self.frames, self.spare = (np.zeros((num_envs, *planes), space.dtype) for _ in range(2))

    def reset(self, observations: Array) -> Array:
        self.frames[:] = 0
        self.frames[:, -self.width :] = np.moveaxis(observations, self.shown_axis, 1)
        return self.shown()

    def shift(self, observations: Array) -> None:
        self.frames, self.spare = self.spare, self.frames
        self.frames[:, : -self.width] = self.spare[:, self.width :]
        self.frames[:, -self.width :] = np.moveaxis(observations, self.shown_axis, 1)

    def with_last(self, index: int, observation: Array) -> Array:
        """The stack of one environment with another last observation."""
        frames = self.frames[index].copy()
        axis = 0 if self.shown_axis == 1 else -1
        frames[-self.width :] = np.moveaxis(observation, axis, 0)
        return np.moveaxis(frames, 0, axis)

    def forget(self, index: int) -> None:
        """Keep only the last observation of an environment: it opens an episode."""
        self.frames[index, : -self.width] = 0

    def shown(self) -> Array:
        return np.moveaxis(self.frames, 1, self.shown_axis)


class StackedObservations:
    """Stacks of the last observations, for a ``Box`` space or a flat ``Dict`` of them."""

    def __init__(
        self,
        num_envs: int,
        n_stack: int,
        observation_space: Space,
        channels_order: str | Mapping[str, str | None] | None = None,
    ) -> None:
        """Arguments:
        num_envs: Number of environments.
        n_stack: How many observations a stack holds.
        observation_space: The space of one observation: a Box, or a Dict of them.
        channels_order: Where the axis of stacking is: first, last, a dictionary of these by key, or None to find
            out.
        """
        self.n_stack = n_stack
        self.observation_space = observation_space
        parts = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {"": observation_space}
        if isinstance(channels_order, Mapping) and not isinstance(observation_space, spaces.Dict):
            raise TypeError(
                f"channels_order is a dictionary, but the observations are {observation_space}; pass a string"
            )
        orders = channels_order if isinstance(channels_order, Mapping) else dict.fromkeys(parts, channels_order)
        self._stacks: dict[str, _BoxStack] = {}
        for key, part in parts.items():
            where = f" under key {key!r}" if key else ""
            if not isinstance(part, spaces.Box):
                raise ArgumentTypeError(
                    f"only Box observations, or a Dict of them, can be stacked; got {part}{where} (as_vec_env(env) "
                    "shows a Tuple as a Dict)"
                )
            if not part.shape:
                raise TypeError(f"a single number cannot be stacked; got {part}{where}: give it the shape (1,)")
            self._stacks[key] = _BoxStack(num_envs, n_stack, part, orders[key])
        stacked: dict[str, Space] = {key: stack.space for key, stack in self._stacks.items()}
        self._is_dict = isinstance(observation_space, spaces.Dict)
        self.stacked_observation_space: Space = spaces.Dict(stacked) if self._is_dict else stacked[""]

    @staticmethod
    def compute_stacking(
        n_stack: int, observation_space: spaces.Box, channels_order: str | None = None
    ) -> tuple[bool, int, tuple[int, ...], int]:
        """Whether channels are first, the stacked axis of a batch, the stacked shape, and that axis in it.

        >>> StackedObservations.compute_stacking(4, spaces.Box(0, 255, (84, 84, 1), np.uint8))
        (False, -1, (84, 84, 4), -1)
        """
        if channels_order not in (None, "first", "last"):
            raise ArgumentValueError(
                f"channels_order must be 'first', 'last' or None (find out), got {channels_order!r}"
            )
        first = channels_order == "first"
        if channels_order is None:
            first = is_image_space(observation_space) and is_image_space_channels_first(observation_space)
        axis = 0 if first else -1
        shape = list(observation_space.shape)
        shape[axis] *= n_stack
        return first, 1 if first else -1, tuple(shape), axis

    def reset(self, observation: Observation) -> Observation:
        """Start all stacks again, filled up with zeros."""
        return self._joined({key: stack.reset(self._part(observation, key)) for key, stack in self._stacks.items()})

    def shift(self, observations: Observation) -> None:
        """Make room for a new observation at the end of the stacks."""
        for key, stack in self._stacks.items():
            stack.shift(self._part(observations, key))

    def with_last(self, index: int, observation: Observation) -> Observation:
        """The stack of one environment, ended by another last observation."""
        parts = {key: stack.with_last(index, self._part(observation, key)) for key, stack in self._stacks.items()}
        return self._joined(parts)

    def forget(self, indices: Iterable[int]) -> None:
        """Fill an environment's stack with zeros."""
        for index in indices:
            for stack in self._stacks.values():
                stack.forget(index)

    def shown(self) -> Observation:
        """The stacks as observations."""
        return self._joined({key: stack.shown() for key, stack in self._stacks.items()})

    def state(self) -> dict[str, Array]:
        """The frames of every stack, [env, plane, …], by observation key ("" for a single one)."""
        return {key: stack.frames.copy() for key, stack in self._stacks.items()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Take over what a checkpoint holds."""
        for key, stack in self._stacks.items():
            stack.frames[:] = state[key]

    def update(
        self, observations: Observation, dones: Array, infos: Sequence[Info]
    ) -> tuple[Observation, Sequence[Info]]:
        """Add a step's observations; stack the ``terminal_observation`` of ended episodes in their infos."""
        stacked = self.advance(arrays_from_step(observations, np.zeros(len(dones)), dones, infos), False)
        return copy_observation(stacked.observations), infos

    def advance(self, step: StepArrays, resets_on_next_step: bool) -> StepArrays:
        """The step with stacked observations."""
        self.shift(step.observations)
        final_observations = step.final_observations
        if step.infos:
            if len(final_observations) < len(step.infos):
                warnings.warn(
                    "an episode ended without terminal_observation in its info; it is not stacked", stacklevel=3
                )
            for index, observation in final_observations.items():
                step.infos[index]["terminal_observation"] = self.with_last(index, observation)
            final_observations = {index: step.infos[index]["terminal_observation"] for index in final_observations}
            if not resets_on_next_step:
                self.forget(step.infos)
        if step.valid is not None:
            self.forget(np.flatnonzero(~step.valid).tolist())
        return step._replace(observations=self.shown(), final_observations=final_observations)

    def _part(self, observation: Observation, key: str) -> Array:
        return observation[key] if isinstance(observation, dict) else observation

    def _joined(self, parts: dict[str, Array]) -> Observation:
        return parts if self._is_dict else parts[""]


@stands_for("stable_baselines3.common.vec_env.vec_frame_stack", "VecFrameStack")
class VecFrameStack(StepTransform):
    """Show the last ``n_stack`` observations along the channel axis, oldest first, zeros before an episode's start.

    ``channels_order``: ``"first"``, ``"last"``, a dictionary of these for ``Dict`` observations, or None to find out
    for images (others are stacked along their last axis).
    """

    def __init__(
        self, venv: VecEnv, n_stack: int, channels_order: str | Mapping[str, str | None] | None = None
    ) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        n_stack: How many observations a stack holds.
        channels_order: Where the axis of stacking is: first, last, a dictionary of these by key, or None to find
            out.
        """
        self.n_stack = n_stack
        self.stacked_obs = StackedObservations(venv.num_envs, n_stack, venv.observation_space, channels_order)
        super().__init__(venv, observation_space=self.stacked_obs.stacked_observation_space)

    def reset(self) -> Observation:
        return copy_observation(self.stacked_obs.reset(self.venv.reset()))

    def transform(self, step: StepArrays) -> StepArrays:
        return self.stacked_obs.advance(step, self.resets_on_next_step)

    rows_in_state = (("frames",),)

    def own_state(self) -> dict[str, Any]:
        return {"frames": self.stacked_obs.state()}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        self.stacked_obs.load_state(state["frames"])

    def step_wait(self) -> VecEnvStepReturn:
        observations, *others = super().step_wait()
        return copy_observation(observations), *others  # type: ignore[return-value]

    step_arrays = StepTransform.step_arrays  # the four-tuple only adds a copy, so arrays need not go through it
