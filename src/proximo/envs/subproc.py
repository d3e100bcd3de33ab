"""Environments stepped in worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.data import Array, Observation, StepArrays
from proximo.envs.dummy import StepBuffers
from proximo.envs.shared_memory import SharedArrays
from proximo.envs.vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, copy_observation
from proximo.envs.worker import CLOSE, DONE, STEP, STEP_WITH_INFOS, Answer, Call, Failure, StepExtras, serve
from proximo.errors import EnvWorkerError

_SECONDS_TO_CLOSE = 5.0  # for a worker to close its environments before it is terminated
_SECONDS_AWAKE = 0.003  # that a worker with a core of its own waits for the next step before it sleeps
_SECONDS_AFTER_ERROR = 0.5  # the same when the error is what the user waits for


class _WorkerHandle:
    """The parent's end of one worker."""

    def __init__(
        self, context: Any, factories: bytes, indices: range, siblings: list[_WorkerHandle], seconds_awake: float
    ) -> None:
        self.indices = indices
        self.awaiting = True  # an answer; the first one, unasked, tells the spaces
        self.connection, theirs = context.Pipe()
        inherited = [handle.connection for handle in siblings] + [self.connection]
        forked = context.get_start_method() == "fork"
        self.process: BaseProcess = context.Process(
            target=serve,
            args=(theirs, inherited if forked else [], factories, indices[0], seconds_awake),
            daemon=True,
        )
        self.process.start()
        theirs.close()  # so that the worker's death reads as the end of the pipe

    def send(self, call: Call) -> None:
        self.send_bytes(cloudpickle.dumps(call))

    def send_bytes(self, message: bytes) -> None:
        try:
            self.connection.send_bytes(message)
        except ConnectionError:
            raise self.death() from None
        self.awaiting = True

    def receive(self) -> Any:
        """The worker's answer; its failure or death as an exception."""
        try:
            message = self.connection.recv_bytes()
        except (EOFError, ConnectionError):
            raise self.death() from None
        self.awaiting = False
        if message == DONE:
            return None
        outcome: Answer | Failure = pickle.loads(message)
        if isinstance(outcome, Failure):
            raise self.failure(outcome)
        return outcome.value

    def failure(self, failure: Failure) -> EnvWorkerError:
        who = f"environment {failure.environment}" if failure.environment is not None else self.environments()
        return EnvWorkerError(
            f"{who} failed in worker process {self.process.pid}: {failure.error}\n\n"
            f"the worker's traceback:\n{failure.traceback}"
        )

    def death(self) -> EnvWorkerError:
        self.process.join(_SECONDS_TO_CLOSE)
        code = self.process.exitcode
        if code is None:
            how = "closed its pipe without ending"
        elif code < 0:
            how = f"was killed by signal {_signal_name(-code)}"
        else:
            how = f"ended with exit code {code}"
        return WorkerDiedError(f"worker process {self.process.pid}, which runs {self.environments()}, {how}")

    def environments(self) -> str:
        first, last = self.indices[0], self.indices[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"


class WorkerDiedError(EnvWorkerError):
    """A worker process is gone; the vector environment it belonged to is closed."""


class SubprocVecEnv(VecEnv):
    """Step the environments in worker processes, ``envs_per_worker`` in each (by default spread over the cores).

    Actions, observations, rewards and ends go through shared memory; infos only when an episode ends or ``step`` asks
    for all of them. What an environment raises in ``step`` or ``reset`` is raised here as ``EnvWorkerError`` with the
    worker's traceback and the environment's index; after that, as after a worker's death, everything is closed.
    ``start_method`` is ``forkserver`` where there is one, else ``spawn``; both need the script's entry under
    ``if __name__ == "__main__":``.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        start_method: str | None = None,
        envs_per_worker: int | None = None,
    ) -> None:
        if not env_fns:
            raise ValueError("got no environment factories; pass at least one")
        self.closed = False
        self._handles: list[_WorkerHandle] = []
        self._finalizer = weakref.finalize(self, _stop, self._handles, _SECONDS_TO_CLOSE)
        try:
            self._start(list(env_fns), start_method, envs_per_worker)
            spaces_of_all = self._answers(self._handles)
            super().__init__(len(env_fns), *spaces_of_all[0])
            self._share_memory()
        except BaseException:
            self._abandon()
            raise

    def _start(self, factories: list[Any], start_method: str | None, envs_per_worker: int | None) -> None:
        if start_method is None:
            start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(start_method)
        if start_method == "forkserver":
            _preload_worker_module()
        if envs_per_worker is None:
            envs_per_worker = -(-len(factories) // _usable_cores())
        if envs_per_worker < 1:
            raise ValueError(f"envs_per_worker must be at least 1, got {envs_per_worker}")
        workers = -(-len(factories) // envs_per_worker)
        each_has_a_core = workers <= _usable_cores() and hasattr(os, "sched_yield")
        for first in range(0, len(factories), envs_per_worker):
            group = factories[first : first + envs_per_worker]
            indices = range(first, first + len(group))
            seconds_awake = _SECONDS_AWAKE if each_has_a_core else 0.0
            self._handles.append(
                _WorkerHandle(context, cloudpickle.dumps(group), indices, list(self._handles), seconds_awake)
            )
        self._by_descriptor = {handle.connection.fileno(): handle for handle in self._handles}
        self._poller = select.poll() if hasattr(select, "poll") else None  # none on Windows
        if self._poller is not None:
            for descriptor in self._by_descriptor:
                self._poller.register(descriptor, select.POLLIN)

    def _share_memory(self) -> None:
        layout = StepBuffers.layout(self.observation_space, self.num_envs)
        array_actions = isinstance(
            self.action_space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        )
        if array_actions:
            shape = (self.num_envs, *(self.action_space.shape or ()))
            layout["actions"] = (shape, np.dtype(self.action_space.dtype))
        shared = SharedArrays.create(layout)
        try:
            self._ask_all([Call("share", (shared.path, layout))] * len(self._handles))
        finally:
            shared.forget_name()
        arrays = dict(shared.arrays)
        self._actions: Array | None = arrays.pop("actions", None)
        self._buffers = StepBuffers.of_arrays(arrays)
        self._masks: Array | None = None  # shared when somebody first asks for masks

    def reset(self) -> VecEnvObs:
        calls = []
        for handle in self._handles:
            rows = slice(handle.indices[0], handle.indices[-1] + 1)
            calls.append(Call("reset", (self._seeds[rows], self._options[rows])))
        with self._closing_on_error():
            infos = self._ask_all(calls)
        self.reset_infos = [info for group in infos for info in group]
        self._reset_seeds()
        self._reset_options()
        return copy_observation(self._buffers.observations)

    def step_async(self, actions: Any) -> None:
        with self._closing_on_error():
            self._send_step(actions, with_infos=True)

    def step_wait(self) -> VecEnvStepReturn:
        with self._closing_on_error():
            extras = self._receive_step()
        infos = [extras.infos[index] for index in range(self.num_envs)]
        buffers = self._buffers
        dones = buffers.terminated | buffers.truncated
        return copy_observation(buffers.observations), buffers.rewards.copy(), dones, infos

    def step_arrays(self, actions: Any) -> StepArrays:
        with self._closing_on_error():
            self._send_step(actions, with_infos=False)
            extras = self._receive_step()
        final_observations: dict[int, Observation] = {
            index: info["terminal_observation"] for index, info in extras.infos.items()
        }
        buffers = self._buffers
        return StepArrays(
            buffers.observations,
            buffers.rewards,
            buffers.terminated,
            buffers.truncated,
            final_observations,
            extras.infos,
        )

    def _send_step(self, actions: Any, with_infos: bool) -> None:
        self._require_open()
        self._finish_pending()
        if self._actions is not None:
            self._actions[:] = actions
            for handle in self._handles:
                handle.send_bytes(STEP_WITH_INFOS if with_infos else STEP)
        else:  # actions that are no arrays
            for handle in self._handles:
                handle.send(Call("step", (with_infos, [actions[index] for index in handle.indices])))

    def _receive_step(self) -> StepExtras:
        if not self.waiting:
            raise RuntimeError("no step is under way; call step_async() before step_wait()")
        extras = StepExtras({}, {})
        for handle in self._as_they_answer():
            part: StepExtras | None = handle.receive()
            if part is not None:
                extras.infos.update(part.infos)
                for index, info in part.reset_infos.items():
                    self.reset_infos[index] = info
        # by index, not by who was first: runs of the same seed must not differ
        return extras._replace(infos=dict(sorted(extras.infos.items())))

    @property
    def waiting(self) -> bool:
        """Whether some worker still owes an answer."""
        return any(handle.awaiting for handle in self._handles)

    def _as_they_answer(self) -> Iterator[_WorkerHandle]:
        """Every worker that owes an answer, once it can be received; a dead one is noticed as soon as it is dead."""
        if self._poller is None:
            yield from (handle for handle in self._handles if handle.awaiting)
            return
        while self.waiting:
            for descriptor, _ in self._poller.poll():
                handle = self._by_descriptor[descriptor]
                if not handle.awaiting:  # nothing to receive, so this is the end of its pipe
                    raise handle.death()
                yield handle

    def _finish_pending(self) -> None:
        """Wait for answers that nobody received, as after Ctrl-C."""
        if self.waiting:
            for handle in self._as_they_answer():
                handle.receive()

    def _ask_all(self, calls: Sequence[Call]) -> list[Any]:
        return self._ask(list(zip(self._handles, calls, strict=True)))

    def _ask(self, questions: list[tuple[_WorkerHandle, Call]]) -> list[Any]:
        """Put questions to workers and give their answers in the same order."""
        self._require_open()
        try:
            self._finish_pending()
            for handle, call in questions:
                handle.send(call)
            return self._answers([handle for handle, _ in questions])
        except WorkerDiedError:
            self._abandon()
            raise

    def _answers(self, handles: Sequence[_WorkerHandle]) -> list[Any]:
        """What the workers answer; the first failure is raised when all have answered, a death at once."""
        answers: dict[_WorkerHandle, Any] = {}
        failures: dict[_WorkerHandle, EnvWorkerError] = {}
        for handle in self._as_they_answer():
            try:
                answers[handle] = handle.receive()
            except WorkerDiedError:
                raise
            except EnvWorkerError as failure:
                failures[handle] = failure
        for handle in handles:
            if handle in failures:
                raise failures[handle]
        return [answers[handle] for handle in handles]

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except EnvWorkerError:
            self._abandon()
            raise

    def _require_open(self) -> None:
        if self.closed:
            raise RuntimeError("this SubprocVecEnv is closed; make a new one")

    def close(self) -> None:
        """End the workers: politely, then by force. A step under way is not waited for longer than that takes."""
        self.closed = True
        self._finalizer()

    def _abandon(self) -> None:
        self.closed = True
        if self._finalizer.detach() is not None:
            _stop(self._handles, _SECONDS_AFTER_ERROR)

    @property
    def processes(self) -> list[BaseProcess]:
        return [handle.process for handle in self._handles]

    def action_masks(self) -> Array:
        """Masks come by pipe the first time, and from then on in shared memory with every reset and step."""
        if self._masks is None:
            parts = self._ask_all([Call("call", ("action_masks", (), {}))] * len(self._handles))
            self._masks = self._share_masks(np.concatenate(parts))
        elif self.waiting:
            raise RuntimeError("a step is under way; call step_wait() before action_masks()")
        return self._masks

    def _share_masks(self, masks: Array) -> Array:
        layout = {"action_masks": (masks.shape, masks.dtype)}
        shared = SharedArrays.create(layout)
        try:
            self._ask_all([Call("share_masks", (shared.path, layout))] * len(self._handles))
        finally:
            shared.forget_name()
        return shared.arrays["action_masks"]

    def has_attr(self, attr_name: str) -> bool:
        call = Call("call", ("has_attr", (attr_name,), {}))
        return all(self._ask_all([call] * len(self._handles)))

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
        for handle in self._handles:
            mine = [place for place, index in enumerate(wanted) if index in handle.indices]
            if mine:
                local = [wanted[place] - handle.indices[0] for place in mine]
                questions.append((handle, Call("call", (method, arguments, {**keywords, "indices": local}))))
                places.append(mine)
        results: list[Any] = [None] * len(wanted)
        for mine, answers in zip(places, self._ask(questions), strict=True):
            for place, answer in zip(mine, answers or [None] * len(mine), strict=True):
                results[place] = answer
        return results


def _stop(handles: list[_WorkerHandle], grace_seconds: float) -> None:
    """Ask the workers to end, then make sure."""
    for handle in handles:
        with contextlib.suppress(OSError):
            handle.connection.send_bytes(CLOSE)
        handle.connection.close()  # also frees a worker that is stuck sending what nobody reads
    deadline = time.monotonic() + grace_seconds
    for process in (handle.process for handle in handles):
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()


def _preload_worker_module() -> None:
    """Let the fork server import this library once for all workers, if it is not running yet."""
    server: Any = forkserver._forkserver
    modules = [*server._preload_modules, serve.__module__]
    server.set_forkserver_preload(list(dict.fromkeys(modules)))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
