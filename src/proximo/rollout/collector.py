"""Steps the environments with the current policy: the only caller of ``env.step`` during training."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

from proximo.backends.base import Backend
from proximo.data import Array, Info, Observation, StepArrays, observation_rows
from proximo.envs.vec_env import VecEnv, arrays_from_step
from proximo.functional.spaces import get_obs_shape
from proximo.functional.statistics import check_finite_rollout, check_finite_row
from proximo.rollout.masks import MaskReader
from proximo.rollout.storage import RolloutBuffer, is_stock


class StepListener(Protocol):
    """Somebody who follows the collection step by step. Asked once per rollout; who wants nothing costs nothing."""

    def wants_steps(self) -> bool: ...

    def wants_locals(self) -> bool: ...

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        """Called after each vector step of ``environments`` environments; False ends the collection."""


class Collector:
    """Fills a rollout buffer from a vector environment, carrying the observation from one rollout to the next."""

    def __init__(self, env: VecEnv, episode_infos: deque[Info], episode_successes: deque[bool]) -> None:
        self.env = env
        self.episode_infos = episode_infos
        self.episode_successes = episode_successes
        self.masks: MaskReader | None = None  # who reads action masks, when actions are to be masked
        self.observations: Observation | None = None  # [env, …]; None before the first reset
        self.episode_starts: Array = np.ones(env.num_envs, np.bool_)

    def reset(self) -> None:
        self.observations = self.env.reset()
        self.episode_starts = np.ones(self.env.num_envs, np.bool_)

    def current_observations(self) -> Observation:
        """What the environments showed last, [env, …]; resets them if they have shown nothing yet."""
        if self.observations is None:
            self.reset()
        return self.observations  # type: ignore[return-value]

    def collect(self, backend: Backend, buffer: RolloutBuffer, listener: StepListener, context: dict[str, Any]) -> bool:
        """Collect ``buffer.buffer_size`` steps and their advantages; False when the listener ended it early.

        ``context`` holds the local variables that a listener may want to see beside the collector's own.
        """
        buffer.reset()
        if self.masks is not None:
            shape = (buffer.buffer_size, buffer.n_envs, self.masks.width)
            buffer.rollout.action_masks = np.ones(shape, np.bool_)
        backend.start_rollout(buffer.buffer_size, buffer.n_envs)
        wants_steps, wants_locals = listener.wants_steps(), listener.wants_locals()
        for step in range(buffer.buffer_size):
            buffer.store_observation(step, self.current_observations())
            buffer.rollout.episode_starts[step] = self.episode_starts
            if self.masks is not None:
                buffer.rollout.action_masks[step] = self.masks.read(step)  # type: ignore[index]
            actions = backend.act(observation_rows(buffer.rollout.observations, step), buffer.rollout, step)
            if wants_locals:
                arrays, step_locals = self._step_with_infos(actions, buffer, step)
                proceed = listener.on_step(buffer.n_envs, context | step_locals)
            else:
                arrays = self.env.step_arrays(actions)
                proceed = listener.on_step(buffer.n_envs, None) if wants_steps else True
            if not proceed:
                self._move_on(arrays)  # a later learn() goes on from where the environments are
                return False
            self._record(arrays, backend, buffer, step)
        self._finish(backend, buffer)
        return True

    def _step_with_infos(self, actions: Array, buffer: RolloutBuffer, step: int) -> tuple[StepArrays, dict[str, Any]]:
        """One step through the user-facing interface, with the variables that callbacks read as ``self.locals``."""
        observations, rewards, dones, infos = self.env.step(actions)
        rollout = buffer.rollout
        return arrays_from_step(observations, rewards, dones, infos), {
            "n_steps": step,
            "actions": rollout.actions[step],
            "clipped_actions": actions,
            "values": torch.from_numpy(rollout.values[step]).unsqueeze(1),
            "log_probs": torch.from_numpy(rollout.log_probs[step]),
            "new_obs": observations,
            "rewards": rewards,
            "dones": dones,
            "infos": infos,
        }

    def _record(self, arrays: StepArrays, backend: Backend, buffer: RolloutBuffer, step: int) -> None:
        rollout = buffer.rollout
        rollout.rewards[step] = arrays.rewards
        rollout.terminated[step] = arrays.terminated
        rollout.truncated[step] = arrays.truncated
        rollout.bootstrap_values[step] = 0.0
        if arrays.infos:
            self._record_ends(arrays, backend, buffer, step)
        if not is_stock(buffer):
            buffer.add(
                observation_rows(rollout.observations, step),
                rollout.actions[step].copy(),
                rollout.rewards[step] + buffer.gamma * rollout.bootstrap_values[step],
                self.episode_starts,
                torch.from_numpy(rollout.values[step].copy()),
                torch.from_numpy(rollout.log_probs[step].copy()),
            )
        if arrays.valid is not None:
            if rollout.valid is None:
                rollout.valid = np.ones(rollout.rewards.shape, np.bool_)
            rollout.valid[step] = arrays.valid
        self._move_on(arrays)

    def _move_on(self, arrays: StepArrays) -> None:
        """Stand where the environments stand after a step."""
        self.observations = arrays.observations
        self.episode_starts = arrays.terminated | arrays.truncated
        if arrays.valid is not None:
            self.episode_starts |= ~arrays.valid  # a row that only reset its environment: the episode starts after it

    def count_episodes(self, infos: Mapping[int, Info], ended: Array) -> None:
        """Keep the statistics of finished episodes; ``is_success`` counts only where an episode ended."""
        for index, info in infos.items():
            if (episode := info.get("episode")) is not None:
                self.episode_infos.append(episode)
            if ended[index] and (success := info.get("is_success")) is not None:
                self.episode_successes.append(success)

    def _record_ends(self, arrays: StepArrays, backend: Backend, buffer: RolloutBuffer, step: int) -> None:
        self.count_episodes(arrays.infos, arrays.terminated | arrays.truncated)
        for index in np.flatnonzero(arrays.truncated).tolist():
            # the time limit cut the episode, the task did not end: the rest is worth V of what was last seen
            final = self._one_observation(arrays.final_observations[index], buffer)
            buffer.rollout.bootstrap_values[step, index] = backend.values(final, environment=index)[0]

    @staticmethod
    def _one_observation(observation: Observation, buffer: RolloutBuffer) -> Observation:
        shapes = get_obs_shape(buffer.observation_space)
        if isinstance(observation, dict):
            return {key: np.reshape(observation[key], (1, *shape)) for key, shape in shapes.items()}  # type: ignore[union-attr]
        return np.reshape(observation, (1, *shapes))

    def _finish(self, backend: Backend, buffer: RolloutBuffer) -> None:
        rollout = buffer.rollout
        check_finite_rollout("observation", rollout.observations)
        observations = self.current_observations()
        check_finite_row("observation", observations, buffer.buffer_size)
        check_finite_rollout("reward", rollout.rewards)
        check_finite_rollout("value of the final observation", rollout.bootstrap_values)
        rollout.last_values[:] = backend.values(observations, episode_starts=self.episode_starts)
        if is_stock(buffer):
            buffer.pos, buffer.full = buffer.buffer_size, True
            buffer.estimate_advantages()
        else:
            buffer.compute_returns_and_advantage(torch.from_numpy(rollout.last_values), self.episode_starts)
