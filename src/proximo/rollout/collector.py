"""Steps the environments with the current policy: the only caller of ``env.step`` during training."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from proximo.data import (
    Array,
    Info,
    Observation,
    RNNStates,
    Rollout,
    Share,
    StepArrays,
    join_observations,
    map_observation,
    observation_rows,
)
from proximo.envs.vector.normalize import normalizers
from proximo.envs.vector.vec_env import VecEnv, arrays_from_step, copy_observation
from proximo.functional.spaces import get_obs_shape, obs_as_tensor
from proximo.functional.statistics import check_finite_rollout, check_finite_row
from proximo.rollout.exchange import EpisodeEnd, RolloutExchange, Summary
from proximo.rollout.masks import MaskReader
from proximo.rollout.non_finite import BrokenSteps
from proximo.rollout.storage import RolloutBuffer, is_stock


class Actor(Protocol):
    """What the collector asks of a backend."""

    states: RNNStates | None  # what a policy with memory remembers of the current episodes
    rounds_by_rows: bool  # whether ``share`` decides how values round

    def start_rollout(self, steps: int, environments: int, share: Share | None = None) -> None:
        """Prepare for ``steps`` calls of :meth:`act` (evaluation mode, random numbers).

        Where several processes train together, ``share`` says which of all environments these are.
        """

    def act(self, observations: Observation, rollout: Rollout, step: int) -> Array:
        """Sample actions for [env, …] observations into row ``step`` of actions, values and log-probabilities.

        Episode starts and, if there are any, action masks of this step are in the rollout already. Returns the actions
        as the environment takes them: [env, …], continuous ones within bounds.
        """

    def values(
        self,
        observations: Observation,
        environments: NDArray[np.int64] | None = None,
        episode_starts: Array | None = None,
        share: Share | None = None,
    ) -> Array:
        """V for [batch, …] observations: [batch] float32; [batch, 2] for a policy with a second value.

        For a policy with memory: of which ``environments``' current episodes they are, by default one of each; new
        episodes start where ``episode_starts`` [batch] says. ``share`` says which of all processes' rows they are.
        """


class StepListener(Protocol):
    """Somebody who follows the collection step by step. Asked once per rollout; who wants nothing costs nothing."""

    def wants_steps(self) -> bool:
        """Whether it is to be called at each step."""

    def wants_locals(self) -> bool:
        """Whether it reads the loop's variables there."""

    def on_step(self, environments: int, local_variables: dict[str, Any] | None) -> bool:
        """Called after each vector step of ``environments`` environments; False ends the collection."""


# (rollout, next_observations): changes the rewards of a full rollout in place, before its advantages are estimated;
# next_observations [time, env, …] are what the steps led to, final observations where an episode ended
RewardShaper: TypeAlias = Callable[[Rollout, Observation], None]


class Collector:
    """Fills a rollout buffer from a vector environment, carrying the observation from one rollout to the next."""

    def __init__(self, env: VecEnv, episode_infos: deque[Info], episode_successes: deque[bool]) -> None:
        """Arguments:
        env: The vector environment that is stepped.
        episode_infos: Where return and length of ended episodes go.
        episode_successes: Where their is_success goes.
        """
        self.env = env
        self.episode_infos = episode_infos
        self.episode_successes = episode_successes
        self.skip_non_finite = False  # leave out steps that are not finite, instead of stopping
        self.keep_final_observations = False  # for a reward shaper, which reads what each step led to
        self.masks: MaskReader | None = None  # who reads action masks, when actions are to be masked
        self.observations: Observation | None = None  # [env, …]; None before the first reset
        self.episode_starts: Array = np.ones(env.num_envs, np.bool_)
        self.exchange: RolloutExchange | None = None  # with other processes that train together with this one
        self.steps_counted = 0  # of the latest rollout, until a callback ended it
        self.following_starts = self.episode_starts  # of those environments that the rollout holds, after it
        self._following: Observation | None = None  # what they showed there, where others' are among them
        self._final_observations: dict[tuple[int, int], Observation] = {}  # (step, env) → last of an episode
        self._broken: BrokenSteps | None = None
        self._ends: list[EpisodeEnd] = []  # of a rollout that is exchanged
        self._unvalued: list[tuple[int, NDArray[np.int64], Observation]] = []  # step, environments, last observations

    def reset(self) -> None:
        """Reset the environments and forget what was carried over."""
        self.observations = self.env.reset()
        self.episode_starts = np.ones(self.env.num_envs, np.bool_)

    def current_observations(self) -> Observation:
        """What the environments showed last, [env, …]; resets them if they have shown nothing yet."""
        if self.observations is None:
            self.reset()
        return self.observations  # type: ignore[return-value]

    def collect(
        self,
        backend: Actor,
        buffer: RolloutBuffer,
        listener: StepListener,
        context: dict[str, Any],
        whole: RolloutBuffer | None = None,
    ) -> bool:
        """Collect ``buffer.buffer_size`` steps and what follows the last; False when the listener ended it early.

        ``context`` holds the local variables that a listener may want to see beside the collector's own. With
        ``whole``, the rollouts of all processes that train together go there.
        """
        buffer.reset()
        self._ends, self._unvalued, self._following = [], [], None
        self._final_observations = {}
        if self.masks is not None:
            shape = (buffer.buffer_size, buffer.n_envs, self.masks.width)
            buffer.rollout.action_masks = np.ones(shape, np.bool_)
        self._broken = BrokenSteps(buffer.buffer_size, buffer.n_envs) if self.skip_non_finite else None
        stopped_at = self._collect_steps(backend, buffer, listener, context)
        for normalizer in normalizers(self.env):
            normalizer.end_rollout()
        if self.exchange is not None:
            return self._collect_together(self.exchange, backend, buffer, whole, stopped_at)
        if stopped_at is not None:
            return False
        self._value_last_observations(backend, buffer)
        self.following_starts = self.episode_starts
        return True

    def _collect_together(
        self,
        exchange: RolloutExchange,
        backend: Actor,
        buffer: RolloutBuffer,
        whole: RolloutBuffer | None,
        stopped_at: int | None,
    ) -> bool:
        """What follows the steps where other processes have the rest of the environments."""
        rollout = buffer.rollout
        truncated = {step: len(environments) for step, environments, _ in self._unvalued}
        agreed = exchange.summarize(Summary(stopped_at, rollout.valid is not None, truncated, self._ends))
        for end in agreed.ends:
            self._count(end.episode, end.success)
        self.steps_counted = buffer.buffer_size if agreed.stopped_at is None else agreed.stopped_at + 1
        if agreed.stopped_at is not None:
            return False
        for step, environments, finals in self._unvalued:
            values = backend.values(finals, environments=environments, share=exchange.share_of_truncated(step))
            rollout.bootstrap_values[step, environments] = values
        self._value_last_observations(backend, buffer, exchange.share)
        self.following_starts = self.episode_starts
        if whole is None:
            rollout.share = exchange.share
        else:
            self._gather(exchange, buffer, whole, agreed.has_valid)
        return True

    def _gather(self, exchange: RolloutExchange, buffer: RolloutBuffer, whole: RolloutBuffer, has_valid: bool) -> None:
        """Hold what a single process with all environments would hold."""
        whole.reset()
        exchange.gather_rollout(buffer.rollout, whole.rollout, has_valid)
        if self.keep_final_observations:
            self._following = exchange.gather_rows(self.current_observations())
            first = exchange.share.first
            mine = {(step, first + index): final for (step, index), final in self._final_observations.items()}
            self._final_observations = {}
            for finals in exchange.group.gather(mine, "the end of the rollout"):
                self._final_observations |= finals
        if self._broken is not None:
            broken = BrokenSteps(whole.buffer_size, whole.n_envs)
            broken.observations = exchange.gather_columns(self._broken.observations)
            self._broken = broken
        if is_stock(whole):
            whole.pos, whole.full = whole.buffer_size, True
            return
        self.following_starts = exchange.gather_rows(self.episode_starts)  # type: ignore[assignment]
        for step in range(whole.buffer_size):
            self._add(whole, step, whole.rollout.episode_starts[step])

    def _collect_steps(
        self,
        backend: Actor,
        buffer: RolloutBuffer,
        listener: StepListener,
        context: dict[str, Any],
    ) -> int | None:
        """All steps; the one after which the listener asked for the end, if it did.

        In a group, the rollout is completed even then: the others may be waiting for what callbacks do at its steps.
        """
        exchange, environments, stopped_at = self.exchange, buffer.n_envs, None
        if exchange is None:
            backend.start_rollout(buffer.buffer_size, environments)
        else:
            backend.start_rollout(buffer.buffer_size, environments, exchange.share)
            environments = exchange.share.total
        wants_steps, wants_locals = listener.wants_steps(), listener.wants_locals()
        for step in range(buffer.buffer_size):
            buffer.store_observation(step, self.current_observations())
            if self._broken is not None:
                self._broken.blank(step, observation_rows(buffer.rollout.observations, step))
            buffer.rollout.episode_starts[step] = self.episode_starts
            if self.masks is not None:
                buffer.rollout.action_masks[step] = self.masks.read(step)  # type: ignore[index]
            actions = backend.act(observation_rows(buffer.rollout.observations, step), buffer.rollout, step)
            if wants_locals:
                arrays, step_locals = self._step_with_infos(actions, backend, buffer, step)
                proceed = listener.on_step(environments, context | step_locals)
            else:
                arrays = self.env.step_arrays(actions)
                proceed = listener.on_step(environments, None) if wants_steps else True
            if exchange is not None:
                exchange.group.show_life()
            if not proceed and stopped_at is None:
                stopped_at = step
                if exchange is None:
                    self._move_on(arrays)  # a later learn() goes on from where the environments are
                    break
            self._record(arrays, backend, buffer, step)
        return stopped_at

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
            self._add(buffer, step, self.episode_starts)
        if arrays.valid is not None:
            if rollout.valid is None:
                rollout.valid = np.ones(rollout.rewards.shape, np.bool_)
            rollout.valid[step] = arrays.valid
        self._move_on(arrays)

    @staticmethod
    def _add(buffer: RolloutBuffer, step: int, episode_starts: Array) -> None:
        """Hand a step of the rollout to a user's buffer."""
        rollout = buffer.rollout
        buffer.add(
            observation_rows(rollout.observations, step),
            rollout.actions[step].copy(),
            rollout.rewards[step] + buffer.gamma * rollout.bootstrap_values[step],
            episode_starts,
            torch.from_numpy(rollout.values[step].copy()),
            torch.from_numpy(rollout.log_probs[step].copy()),
            **({} if rollout.action_masks is None else {"action_masks": rollout.action_masks[step].copy()}),
        )

    def _move_on(self, arrays: StepArrays) -> None:
        """Stand where the environments stand after a step."""
        self.observations = arrays.observations
        self.episode_starts = arrays.terminated | arrays.truncated
        if arrays.valid is not None:
            self.episode_starts |= ~arrays.valid  # a row that only reset its environment: the episode starts after it

    def count_episodes(self, infos: Mapping[int, Info], ended: Array, step: int = 0) -> None:
        """Keep the statistics of finished episodes; ``is_success`` counts only where an episode ended.

        In a group they count when all have told theirs of the rollout.
        """
        for index, info in infos.items():
            episode, success = info.get("episode"), info.get("is_success") if ended[index] else None
            if self.exchange is None:
                self._count(episode, success)
            else:
                self._ends.append(EpisodeEnd(step, self.exchange.share.first + index, episode, success))

    def _count(self, episode: Info | None, success: Any) -> None:
        if episode is not None:
            self.episode_infos.append(episode)
        if success is not None:
            self.episode_successes.append(success)

    def _record_ends(self, arrays: StepArrays, backend: Actor, buffer: RolloutBuffer, step: int) -> None:
        self.count_episodes(arrays.infos, arrays.terminated | arrays.truncated, step)
        if self.keep_final_observations:
            for index, final in arrays.final_observations.items():
                self._final_observations[step, index] = self._one_observation(final, buffer)
        truncated = np.flatnonzero(arrays.truncated)
        if arrays.valid is not None:
            for index in truncated[~arrays.valid[truncated]].tolist():
                self._cut_off(buffer.rollout, step, index)
            truncated = truncated[arrays.valid[truncated]]
        if truncated.size:
            # the time limit cut these episodes, the task did not end: the rest is worth V of what was last seen
            finals = [self._one_observation(arrays.final_observations[index], buffer) for index in truncated.tolist()]
            if self.exchange is not None and backend.rounds_by_rows:
                self._unvalued.append((step, truncated, join_observations(finals)))  # when all have told of theirs
                return
            values = backend.values(join_observations(finals), environments=truncated)
            buffer.rollout.bootstrap_values[step, truncated] = values if values.ndim == 1 else values[:, 0]

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
        return map_observation(lambda shape, part: np.reshape(part, (1, *shape)), shapes, observation)

    def _value_last_observations(self, backend: Actor, buffer: RolloutBuffer, share: Share | None = None) -> None:
        """V of what the environments show after the last step; what is not finite there is blanked or refused."""
        rollout, observations = buffer.rollout, self.current_observations()
        if self._broken is None:
            check_finite_rollout("observation", rollout.observations)
            check_finite_row("observation", observations, buffer.buffer_size)
        else:
            observations = copy_observation(observations)
            self._broken.blank(buffer.buffer_size, observations)
        options: dict[str, Any] = {} if share is None else {"share": share}
        values = backend.values(observations, episode_starts=self.episode_starts, **options)
        rollout.last_values[:] = values if values.ndim == 1 else values[:, 0]
        if rollout.own_stream is not None:
            rollout.own_stream.last_values[:] = values[:, 1]
        if is_stock(buffer):
            buffer.pos, buffer.full = buffer.buffer_size, True

    def shape_rewards(self, rollout: Rollout, shaper: RewardShaper) -> None:
        """Let ``shaper`` change the rewards of the rollout that was just collected."""
        observations = copy_observation(self.current_observations() if self._following is None else self._following)
        if self._broken is None:
            check_finite_rollout("reward", rollout.rewards)
            following = self._next_observations(rollout, observations)
            check_finite_rollout("observation that a step led to", following)
            shaper(rollout, following)
            check_finite_rollout("shaped reward", rollout.rewards)
            return
        self._broken.blank(rollout.steps, observations)
        following = self._next_observations(rollout, observations)
        broken = self._broken.led_nowhere(rollout, following)
        rollout.rewards[broken] = np.nan  # these steps are cut out, reward and all
        shaper(rollout, following)

    def leave_out_non_finite(self, rollout: Rollout) -> None:
        """Take steps out of training whose rewards or values are not finite, or refuse them."""
        if self._broken is not None:
            self._broken.cut_out(rollout, rollout.last_values)
        else:
            check_finite_rollout("reward", rollout.rewards)
            check_finite_rollout("value of the final observation", rollout.bootstrap_values)
        if self.exchange is not None and rollout.share is not None:
            self.exchange.share_valid(rollout, may_be_new=self._broken is not None)

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
