"""Environments stepped in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array, Info, Observation, StepArrays, observation_rows
from proximo.envs.vector.dummy import BufferedVecEnv, StepBuffers
from proximo.envs.vector.vec_env import AUTORESET_KEY, VecEnvIndices, VecEnvObs, VecEnvStepReturn, copy_observation
from proximo.envs.workers.shared_memory import SharedArrays
from proximo.envs.workers.supervision import RestartPolicy, WorkerDiedError, summary
from proximo.envs.workers.worker import NOBODY, STEP, STEP_WITH_INFOS, Call, Opening, StepExtras
from proximo.envs.workers.worker_pool import WorkerPool
from proximo.errors import EnvironmentStateError, EnvWorkerError
from proximo.functional.spaces import ObservationFlattener
from proximo.other_libraries import stands_for

__all__ = ["FAILURE_KEY", "SubprocVecEnv", "WorkerDiedError"]

FAILURE_KEY = "env_failure"
"""Info key, with the cause, where an environment failed and was made again."""


@stands_for("stable_baselines3.common.vec_env.subproc_vec_env", "SubprocVecEnv")
class SubprocVecEnv(BufferedVecEnv):
    """Step the environments in worker processes, ``envs_per_worker`` in each (by default spread over the cores).

    Actions, observations, rewards and ends go through shared memory; infos only when an episode ends or ``step`` asks
    for all of them. ``start_method`` is ``forkserver`` where there is one, else ``spawn``; both need the script's entry
    under ``if __name__ == "__main__":``.

    An environment fails when it raises in ``step`` or ``reset``, when its worker dies, or when the worker has not
    answered after ``step_timeout`` or ``reset_timeout`` seconds (None: wait for ever; the second holds for all that is
    no step: ``reset``, ``get_attr`` and so on).

    * ``on_env_failure="raise"``: ``EnvWorkerError`` names the environment and the cause, with the worker's traceback;
      everything is closed.
    * ``on_env_failure="restart"``: a warning says so, and the environment (when its worker died, all of that worker)
      is made again by its factory and reset with a new seed, which follows from the old one. The row of that step is no
      experience: reward 0, truncated, ``valid`` False, the final observation the last one that was really seen, no
      episode statistics, and the cause in the info's ``env_failure``. What ``set_attr`` and ``env_method`` changed is
      lost. Each environment has ``max_restarts`` restarts, and ``restarts_per_hour`` (None: any number) within an hour;
      after failures in a row they wait longer and longer.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        start_method: str | None = None,
        envs_per_worker: int | None = None,
        on_env_failure: str = "raise",
        step_timeout: float | None = 600.0,
        reset_timeout: float | None = 600.0,
        max_restarts: int = 100,
        restarts_per_hour: int | None = 5,
    ) -> None:
        """Arguments:
        env_fns: Functions that make one environment each; they are sent to the workers by cloudpickle.
        start_method: forkserver, spawn or fork; None is forkserver where there is one, else spawn.
        envs_per_worker: Environments in each process; None spreads them over the cores.
        on_env_failure: raise ends with the worker's traceback; restart makes the environment again and cuts the
            episode.
        step_timeout: Seconds after which a step counts as hanging; None waits for ever.
        reset_timeout: Seconds after which a reset counts as hanging; None waits for ever.
        max_restarts: Restarts in all, beyond which the failure is raised.
        restarts_per_hour: Restarts of one environment within an hour, beyond which the failure is raised; None is
            any number.
        """
        if not env_fns:
            raise ValueError("got no environment factories; pass at least one")
        for name, timeout in (("step_timeout", step_timeout), ("reset_timeout", reset_timeout)):
            if timeout is not None and not timeout > 0:
                raise ValueError(f"{name} must be a positive number of seconds or None, got {timeout}")
        self.step_timeout, self.reset_timeout = step_timeout, reset_timeout
        self._policy = RestartPolicy(len(env_fns), on_env_failure, max_restarts, restarts_per_hour)
        self._pool = WorkerPool(list(env_fns), start_method, envs_per_worker, self._policy, reset_timeout)
        # runs before multiprocessing, at its own end, waits for daemons that it has sent a SIGTERM: workers ignore it
        self._finalizer = Finalize(self, self._pool.close, exitpriority=0)
        with self._pool.closing_on(BaseException):
            super().__init__(len(env_fns), *self._pool.start())
            self._share_memory()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("SubprocVecEnv has worker processes, which cannot be copied or pickled; make a new one instead")

    def _share_memory(self) -> None:
        layout = StepBuffers.layout(ObservationFlattener(self.observation_space).space, self.num_envs)
        layout["at_work"] = ((self.num_envs,), np.dtype(np.int64))
        array_actions = isinstance(
            self.action_space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        )
        if array_actions:
            shape = (self.num_envs, *(self.action_space.shape or ()))
            layout["actions"] = (shape, np.dtype(self.action_space.dtype))
        shared = SharedArrays.create(layout)
        shared.arrays["at_work"].fill(NOBODY)
        arrays = dict(self._pool.share("share", shared).arrays)
        at_work = arrays.pop("at_work")
        for handle in self._pool.handles:
            handle.at_work = at_work[handle.indices[0] : handle.indices[0] + 1]
        self._actions: Array | None = arrays.pop("actions", None)
        self._buffers = StepBuffers.of_arrays(arrays)
        self._seen = copy_observation(self._buffers.observations)  # before a step; only kept for restarts
        self._masks: Array | None = None  # shared when somebody first asks for masks

    def reset(self) -> VecEnvObs:
        self._policy.remember(self._seeds)
        openings = [Opening(index, self._seeds[index], self._options[index]) for index in range(self.num_envs)]
        with self._pool.closing_on(EnvWorkerError):
            self._pool.require_open()
            self._pool.finish_pending()
            for handle in self._pool.handles:
                if not handle.dead:
                    mine = [openings[index] for index in handle.indices]
                    self._pool.send(handle, cloudpickle.dumps(Call("open", (mine, False))))
            for handle, extras in self._pool.gather(self.reset_timeout).items():
                self._pool.note(handle, extras)
            self._pool.remake_broken(self._options)
        self._take_reset_infos()
        self._reset_seeds()
        self._reset_options()
        return copy_observation(self._shown(self._buffers.observations))

    def step_async(self, actions: Any) -> None:
        with self._pool.closing_on(EnvWorkerError):
            self._send_step(actions, with_infos=True)

    def step_wait(self) -> VecEnvStepReturn:
        with self._pool.closing_on(EnvWorkerError):
            step = self._receive_step()
        infos = [step.infos[index] for index in range(self.num_envs)]
        return copy_observation(step.observations), step.rewards.copy(), step.terminated | step.truncated, infos

    def step_arrays(self, actions: Any) -> StepArrays:
        with self._pool.closing_on(EnvWorkerError):
            self._send_step(actions, with_infos=False)
            return self._receive_step()

    def _send_step(self, actions: Any, with_infos: bool) -> None:
        self._pool.require_open()
        self._pool.finish_pending()
        if self._policy.restarts:
            _copy_into(self._seen, self._buffers.observations)
        if self._actions is not None:
            self._actions[:] = actions
        for handle in self._pool.handles:
            if self._pool.broken and all(index in self._pool.broken for index in handle.indices):
                continue  # a worker that died since the last step
            if self._actions is not None:
                self._pool.send(handle, STEP_WITH_INFOS if with_infos else STEP)
            else:  # actions that are no arrays
                mine = [actions[index] for index in handle.indices]
                self._pool.send(handle, cloudpickle.dumps(Call("step", (with_infos, mine))))

    def _receive_step(self) -> StepArrays:
        if not self.waiting and not self._pool.broken:
            raise RuntimeError("no step is under way; call step_async() before step_wait()")
        infos: dict[int, Info] = {}
        for handle in self._pool.as_they_answer(self.step_timeout):
            extras: StepExtras | None = self._pool.receive(handle)
            if extras is not None:
                infos.update(extras.infos)
                self._pool.note(handle, extras)
        step = self._cut_off_broken(infos) if self._pool.broken else self._whole_step(infos)
        self._take_reset_infos()
        return step

    def _take_reset_infos(self) -> None:
        if self._pool.reset_infos:
            for index, info in self._pool.reset_infos.items():
                self.reset_infos[index] = info
            self._pool.reset_infos.clear()

    def _whole_step(self, infos: dict[int, Info]) -> StepArrays:
        buffers = self._buffers
        shown = self._shown(buffers.observations)
        return StepArrays(shown, buffers.rewards, buffers.terminated, buffers.truncated, *_in_order(infos))

    def _cut_off_broken(self, infos: dict[int, Info]) -> StepArrays:
        """Make the broken environments again; what they lost ends as a truncation where it was last seen."""
        buffers = self._buffers
        rewards, terminated, truncated = (
            array.copy() for array in (buffers.rewards, buffers.terminated, buffers.truncated)
        )
        valid = np.ones(self.num_envs, bool)
        for index, cause in self._pool.remake_broken([{}] * self.num_envs).items():
            info = infos.get(index, {})
            if "terminal_observation" in info:  # only its reset failed: the step is as good as any
                info[FAILURE_KEY] = summary(cause)
                continue
            rewards[index], terminated[index], truncated[index], valid[index] = 0.0, False, True, False
            infos[index] = {
                "terminal_observation": self._shown(copy_observation(observation_rows(self._seen, index))),
                "TimeLimit.truncated": True,
                AUTORESET_KEY: True,
                FAILURE_KEY: summary(cause),
            }
        shown = self._shown(buffers.observations)
        return StepArrays(shown, rewards, terminated, truncated, *_in_order(infos), valid)

    @property
    def waiting(self) -> bool:
        """Whether some worker still owes an answer."""
        return self._pool.waiting

    @property
    def closed(self) -> bool:
        """Whether the workers have ended."""
        return self._pool.closed

    @property
    def processes(self) -> list[BaseProcess]:
        """The worker processes."""
        return [handle.process for handle in self._pool.handles]

    def close(self) -> None:
        """End the workers: politely, then by force. A step under way is not waited for longer than that takes."""
        self._finalizer()

    @property
    def has_workers(self) -> bool:
        return True

    def action_masks(self) -> Array:
        """Masks come by pipe the first time, and from then on in shared memory with every reset and step."""
        if self._masks is None:
            parts = self._pool.ask_all([Call("call", ("action_masks", (), {}))] * len(self._pool.handles))
            self._masks = self._share_masks(np.concatenate(parts))
        elif self.waiting:
            raise RuntimeError("a step is under way; call step_wait() before action_masks()")
        return self._masks

    def _share_masks(self, masks: Array) -> Array:
        shared = self._pool.share("share_masks", SharedArrays.create({"action_masks": (masks.shape, masks.dtype)}))
        return shared.arrays["action_masks"]

    def environment_states(self) -> list[Any]:
        parts = self._ask_for_state([Call("call_for_state", ("environment_states",))] * len(self._pool.handles))
        return [state for part in parts for state in part]

    def set_environment_states(self, states: Sequence[Any]) -> list[str]:
        mine = [[states[index] for index in handle.indices] for handle in self._pool.handles]
        gaps = self._ask_for_state([Call("call_for_state", ("set_environment_states", part)) for part in mine])
        return sorted({gap for part in gaps for gap in part})

    def has_state(self) -> bool:
        return all(self._ask_for_state([Call("call_for_state", ("has_state",))] * len(self._pool.handles)))

    def _ask_for_state(self, calls: Sequence[Call]) -> list[Any]:
        answers = self._pool.ask_all(calls)
        for answer in answers:
            if isinstance(answer, EnvironmentStateError):
                raise answer
        return answers

    def has_attr(self, attr_name: str) -> bool:
        call = Call("call", ("has_attr", (attr_name,), {}))
        return all(self._pool.ask_all([call] * len(self._pool.handles)))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._call_each("get_attr", attr_name, indices=indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._call_each("set_attr", attr_name, value, indices=indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self._call_each("env_method", method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return self._call_each("env_is_wrapped", wrapper_class, indices=indices)

    def _call_each(self, method: str, *arguments: Any, indices: VecEnvIndices = None, **keywords: Any) -> list[Any]:
        """Call a method of the groups for these environments, and put their answers in the order asked for."""
        wanted = [range(self.num_envs)[index] for index in self._get_indices(indices)]
        questions, places = [], []
        for handle in self._pool.handles:
            mine = [place for place, index in enumerate(wanted) if index in handle.indices]
            if mine:
                local = [wanted[place] - handle.indices[0] for place in mine]
                questions.append((handle, Call("call", (method, arguments, {**keywords, "indices": local}))))
                places.append(mine)
        results: list[Any] = [None] * len(wanted)
        for mine, answers in zip(places, self._pool.ask(questions), strict=True):
            for place, answer in zip(mine, answers or [None] * len(mine), strict=True):
                results[place] = answer
        return results


def _in_order(infos: dict[int, Info]) -> tuple[dict[int, Observation], dict[int, Info]]:
    """Final observations and infos by index, not by who was first: runs of the same seed must not differ."""
    ordered = dict(sorted(infos.items()))
    finals = {index: info["terminal_observation"] for index, info in ordered.items() if "terminal_observation" in info}
    return finals, ordered


def _copy_into(target: Observation, source: Observation) -> None:
    if isinstance(target, dict):
        for key, rows in target.items():
            rows[:] = source[key]
    else:
        target[:] = source
