"""Steps the environments with the current policy: the only caller of ``env.step`` during training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch

from proximo.data import Array, Info, Observation, RNNStates, Rollout, StepArrays, observation_rows
from proximo.envs.vector.vec_env import VecEnv, arrays_from_step, copy_observation
from proximo.functional.spaces import get_obs_shape, obs_as_tensor
from proximo.functional.statistics import check_finite_rollout, check_finite_row
from proximo.rollout.masks import MaskReader
from proximo.rollout.non_finite import BrokenSteps
from proximo.rollout.storage import RolloutBuffer, is_stock


class Actor(Protocol):
    """Runs a policy's network over the policy's own memory."""

    description: str  # "fused", or "torch: " and why
    states: RNNStates | None  # what a policy with memory remembers of the current episodes

    def is_current(self) -> bool:
        """Whether the policy is still as it was bound; if not, a new backend is due."""

    def start_rollout(self, steps: int, environments: int) -> None:
        """Prepare for ``steps`` calls of :meth:`act` (evaluation mode, random numbers)."""

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step`` of actions, values and log-probabilities.

        Episode starts and, if there are any, action masks of this step are in the rollout already. Returns the actions
        as the environment takes them: [env, …], continuous ones within bounds.
        """

    def values(
        self, observations: Observation, environment: int | None = None, episode_starts: Array | None = None
    ) -> Array:
        """V for [batch, …] observations: [batch] float32.

        For a policy with memory: the observation is one of ``environment``'s current episode, or one of each
        environment, new episodes starting where ``episode_starts`` [env] says.
        """


class StepListener(Protocol):
    """Somebody who follows the collection step by step. Asked once per rollout; who wants nothing costs nothing."""

    def wants_steps(self) -> bool: ...

    def wants_locals(self) -> bool: ...

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        """Called after each vector step of ``environments`` environments; False ends the collection."""


class RewardShaper(Protocol):
    """Changes the rewards of a rollout in place, once it is full and before its advantages are estimated."""

    def __call__(self, rollout: Rollout, next_observations: Observation) -> None:
        """``next_observations`` [time, env, …] are what the steps led to, final observations where an episode ended."""


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch in one thread: a second one stays awake for a while after its work, on a core that the workers need."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Collector:
    """Fills a rollout buffer from a vector environment, carrying the observation from one rollout to the next."""

    def __init__(self, env: VecEnv, episode_infos: deque[Info], episode_successes: deque[bool]) -> None:
        self.env = env
        self.episode_infos = episode_infos
        self.episode_successes = episode_successes
        self.reward_shaper: RewardShaper | None = None  # who changes rewards before the advantages are estimated
        self.skip_non_finite = False  # leave out steps that hold no numbers, instead of stopping
        self.masks: MaskReader | None = None  # who reads action masks, when actions are to be masked
        self.observations: Observation | None = None  # [env, …]; None before the first reset
        self.episode_starts: Array = np.ones(env.num_envs, np.bool_)
        self._final_observations: dict[tuple[int, int], Observation] = {}  # (step, env) → kept for a reward shaper

    def reset(self) -> None:
        self.observations = self.env.reset()
        self.episode_starts = np.ones(self.env.num_envs, np.bool_)

    def current_observations(self) -> Observation:
        """What the environments showed last, [env, …]; resets them if they have shown nothing yet."""
        if self.observations is None:
            self.reset()
        return self.observations  # type: ignore[return-value]

    def collect(self, backend: Actor, buffer: RolloutBuffer, listener: StepListener, context: dict[str, Any]) -> bool:
        """Collect ``buffer.buffer_size`` steps and their advantages; False when the listener ended it early.

        ``context`` holds the local variables that a listener may want to see beside the collector's own.
        """
        buffer.reset()
        self._final_observations = {}
        if self.masks is not None:
            shape = (buffer.buffer_size, buffer.n_envs, self.masks.width)
            buffer.rollout.action_masks = np.ones(shape, np.bool_)
        broken = BrokenSteps(buffer.buffer_size, buffer.n_envs) if self.skip_non_finite else None
        with one_thread() if self.env.has_workers else nullcontext():
            complete = self._collect_steps(backend, buffer, listener, context, broken)
        if complete:
            self._finish(backend, buffer, broken)
        return complete

    def _collect_steps(
        self,
        backend: Actor,
        buffer: RolloutBuffer,
        listener: StepListener,
        context: dict[str, Any],
        broken: BrokenSteps | None,
    ) -> bool:
        backend.start_rollout(buffer.buffer_size, buffer.n_envs)
        wants_steps, wants_locals = listener.wants_steps(), listener.wants_locals()
        for step in range(buffer.buffer_size):
            buffer.store_observation(step, self.current_observations())
            if broken is not None:
                broken.blank(step, observation_rows(buffer.rollout.observations, step))
            buffer.rollout.episode_starts[step] = self.episode_starts
            if self.masks is not None:
                buffer.rollout.action_masks[step] = self.masks.read(step)  # type: ignore[index]
            actions = backend.act(observation_rows(buffer.rollout.observations, step), buffer.rollout, step)
            if wants_locals:
                arrays, step_locals = self._step_with_infos(actions, backend, buffer, step)
                proceed = listener.on_step(buffer.n_envs, context | step_locals)
            else:
                arrays = self.env.step_arrays(actions)
                proceed = listener.on_step(buffer.n_envs, None) if wants_steps else True
            if not proceed:
                self._move_on(arrays)  # a later learn() goes on from where the environments are
                return False
            self._record(arrays, backend, buffer, step)
        return True

    def _step_with_infos(
        self, actions: Array, backend: Actor, buffer: RolloutBuffer, step: int
    ) -> tuple[StepArrays, dict[str, Any]]:
        """One step through the user-facing interface, with the variables that callbacks read as ``self.locals``.

        They are the callback's own to keep, so what lies in the rollout's memory is copied.
        """
        observations, rewards, dones, infos = self.env.step(actions)
        rollout = buffer.rollout
        seen = copy_observation(observation_rows(rollout.observations, step))
        return arrays_from_step(observations, rewards, dones, infos), {
            "n_steps": step,
            "episode_starts": rollout.episode_starts[step].copy(),
            "action_masks": None if rollout.action_masks is None else rollout.action_masks[step].copy(),
            "lstm_states": backend.states,
            "obs_tensor": obs_as_tensor(seen, torch.device("cpu")),
            "actions": rollout.actions[step].copy(),
            "clipped_actions": actions,
            "values": torch.tensor(rollout.values[step]).unsqueeze(1),
            "log_probs": torch.tensor(rollout.log_probs[step]),
            "new_obs": observations,
            "rewards": rewards,
            "dones": dones,
            "infos": infos,
        }

    def _record(self, arrays: StepArrays, backend: Actor, buffer: RolloutBuffer, step: int) -> None:
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
                **({} if rollout.action_masks is None else {"action_masks": rollout.action_masks[step].copy()}),
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

    def _record_ends(self, arrays: StepArrays, backend: Actor, buffer: RolloutBuffer, step: int) -> None:
        self.count_episodes(arrays.infos, arrays.terminated | arrays.truncated)
        if self.reward_shaper is not None:
            for index, final in arrays.final_observations.items():
                self._final_observations[step, index] = self._one_observation(final, buffer)
        for index in np.flatnonzero(arrays.truncated).tolist():
            if arrays.valid is not None and not arrays.valid[index]:
                self._cut_off(buffer.rollout, step, index)
                continue
            # the time limit cut the episode, the task did not end: the rest is worth V of what was last seen
            final = self._one_observation(arrays.final_observations[index], buffer)
            buffer.rollout.bootstrap_values[step, index] = backend.values(final, environment=index)[0]

    @staticmethod
    def _cut_off(rollout: Rollout, step: int, index: int) -> None:
        """End a segment whose environment failed in this step: it is worth V of the observation the step began with."""
        rollout.bootstrap_values[step, index] = rollout.values[step, index]
        if step > 0 and not (rollout.terminated[step - 1, index] or rollout.truncated[step - 1, index]):
            # one step earlier already, as the failed one never trains
            rollout.truncated[step - 1, index] = True
            rollout.bootstrap_values[step - 1, index] = rollout.values[step, index]

    @staticmethod
    def _one_observation(observation: Observation, buffer: RolloutBuffer) -> Observation:
        shapes = get_obs_shape(buffer.observation_space)
        if isinstance(observation, dict):
            return {key: np.reshape(observation[key], (1, *shape)) for key, shape in shapes.items()}  # type: ignore[union-attr]
        return np.reshape(observation, (1, *shapes))

    def _finish(self, backend: Actor, buffer: RolloutBuffer, broken: BrokenSteps | None) -> None:
        rollout, observations = buffer.rollout, self.current_observations()
        if broken is None:
            check_finite_rollout("observation", rollout.observations)
            check_finite_row("observation", observations, buffer.buffer_size)
            check_finite_rollout("reward", rollout.rewards)
            check_finite_rollout("value of the final observation", rollout.bootstrap_values)
        else:
            observations = copy_observation(observations)
            broken.blank(buffer.buffer_size, observations)
            broken.cut_out(rollout, backend.values(observations, episode_starts=self.episode_starts))
        if self.reward_shaper is not None:
            self.reward_shaper(rollout, self._next_observations(rollout, observations))
            check_finite_rollout("shaped reward", rollout.rewards)
        rollout.last_values[:] = backend.values(observations, episode_starts=self.episode_starts)
        if is_stock(buffer):
            buffer.pos, buffer.full = buffer.buffer_size, True
            buffer.estimate_advantages()
        else:
            buffer.compute_returns_and_advantage(torch.from_numpy(rollout.last_values), self.episode_starts)

    def _next_observations(self, rollout: Rollout, last: Observation) -> Observation:
        """[time, env, …]: what each step led to; the final observation where an episode ended there."""
        finals, self._final_observations = self._final_observations, {}

        def shifted(stored: Array, following: Array, key: str | None) -> Array:
            after = np.concatenate([stored[1:], np.reshape(following, (1, *stored.shape[1:]))])
            for (step, index), final in finals.items():
                after[step, index] = (final if key is None else final[key])[0]  # type: ignore[index]
            return after

        if isinstance(rollout.observations, dict):
            return {key: shifted(stored, last[key], key) for key, stored in rollout.observations.items()}
        return shifted(rollout.observations, last, None)  # type: ignore[arg-type]
