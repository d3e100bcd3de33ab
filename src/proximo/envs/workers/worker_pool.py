"""The worker processes of a vector environment: asked together, watched, and replaced where that is allowed."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, forkserver
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym

from proximo.cores import usable_cores
from proximo.data import Info
from proximo.envs.workers import fork_server
from proximo.envs.workers.shared_memory import SharedArrays
from proximo.envs.workers.supervision import (
    SECONDS_AFTER_ERROR,
    SECONDS_TO_CLOSE,
    RestartPolicy,
    WorkerDiedError,
    WorkerHandle,
    seconds_to_start,
    stop_workers,
)
from proximo.envs.workers.worker import Call, Opening, StepExtras, serve
from proximo.errors import EnvWorkerError

_SECONDS_AWAKE = 0.003  # that a worker with a core of its own waits for the next step before it sleeps
_SECONDS_BETWEEN_LOOKS = 1.0  # after workers whose death their own children, holding the pipe open, may hide


class WorkerPool:
    """Workers and what they owe: answers, and environments that failed and are ``broken`` until made again."""

    def __init__(
        self,
        factories: Sequence[Callable[[], gym.Env[Any, Any]]],
        start_method: str | None,
        envs_per_worker: int | None,
        policy: RestartPolicy,
        reset_timeout: float | None,
    ) -> None:
        if start_method is None:
            start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(start_method)
        if envs_per_worker is None:
            envs_per_worker = -(-len(factories) // usable_cores())
        if envs_per_worker < 1:
            raise ValueError(f"envs_per_worker must be at least 1, got {envs_per_worker}")
        workers = -(-len(factories) // envs_per_worker)
        each_has_a_core = workers <= usable_cores() and hasattr(os, "sched_yield")
        seconds_awake = _SECONDS_AWAKE if each_has_a_core else 0.0
        self.handles: list[WorkerHandle] = []
        for first in range(0, len(factories), envs_per_worker):
            group = list(factories[first : first + envs_per_worker])
            indices = range(first, first + len(group))
            self.handles.append(WorkerHandle(context, cloudpickle.dumps(group), indices, seconds_awake))
        self.policy = policy
        self.reset_timeout = reset_timeout  # seconds, for everything but a step
        self.closed = False
        self.broken: dict[int, EnvWorkerError] = {}  # environments to be made again before the next step, and why
        self.reset_infos: dict[int, Info] = {}  # that came with answers; whoever wants them takes them
        self._shared: list[tuple[str, SharedArrays]] = []  # what a new worker is to open, and the method for it
        self._by_descriptor: dict[int, WorkerHandle] = {}
        self._poller = select.poll() if hasattr(select, "poll") else None  # none on Windows

    def start(self) -> tuple[Any, Any]:
        """Start all workers; the spaces of their environments."""
        if self.handles[0].context.get_start_method() == "forkserver":
            _preload_worker_module()
        for handle in self.handles:
            self._start_worker(handle)
        spaces: tuple[Any, Any] = self.gather(seconds_to_start(self.reset_timeout))[self.handles[0]]
        return spaces

    def _start_worker(self, handle: WorkerHandle, replaces: bool = False) -> None:
        handle.start(self.handles, replaces)
        descriptor = handle.connection.fileno()
        self._by_descriptor[descriptor] = handle
        if self._poller is not None:
            self._poller.register(descriptor, select.POLLIN)

    def share(self, method: str, shared: SharedArrays) -> SharedArrays:
        """Have all workers open this memory with a method of theirs, and later ones too."""
        try:
            self.ask_all([Call(method, (shared.path, shared.layout))] * len(self.handles))
        finally:
            if not self.policy.restarts:
                shared.forget_name()
        self._shared.append((method, shared))
        return shared

    @property
    def waiting(self) -> bool:
        """Whether some worker still owes an answer."""
        return any(handle.awaiting for handle in self.handles)

    def send(self, handle: WorkerHandle, message: bytes) -> None:
        try:
            handle.send_bytes(message)
        except WorkerDiedError as death:
            self._reap(handle, death)

    def receive(self, handle: WorkerHandle) -> Any:
        """The worker's answer; None if it died and is to be replaced."""
        try:
            return handle.receive()
        except WorkerDiedError as death:
            self._reap(handle, death)
            return None

    def as_they_answer(self, timeout: float | None) -> Iterator[WorkerHandle]:
        """Every worker that owes an answer, once it can be received; a dead one is noticed as soon as it is dead.

        Those that have not answered after ``timeout`` seconds are killed, which makes their environments fail.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self.waiting:
            ready = self._ready(min(_SECONDS_BETWEEN_LOOKS, max(0.0, deadline - time.monotonic())))
            for handle in ready:
                if handle.awaiting:
                    yield handle
                else:  # nothing to receive, so this is the end of its pipe
                    self._reap(handle, handle.death())
            if not ready:
                self._look_after_silent(timeout, time.monotonic() >= deadline)

    def _ready(self, seconds: float) -> list[WorkerHandle]:
        if self._poller is None:
            owing: dict[Any, WorkerHandle] = {handle.connection: handle for handle in self.handles if handle.awaiting}
            return [owing[ready] for ready in connection.wait(list(owing), seconds)]
        return [self._by_descriptor[descriptor] for descriptor, _ in self._poller.poll(math.ceil(1000 * seconds))]

    def _look_after_silent(self, timeout: float | None, too_late: bool) -> None:
        for handle in self.handles:
            if not handle.awaiting or handle.connection.poll(0):
                continue
            if not handle.process.is_alive():
                self._reap(handle, handle.death())
            elif too_late:
                self._reap(handle, handle.hang(timeout))

    def finish_pending(self) -> None:
        """Wait for answers that nobody received, as after Ctrl-C."""
        if self.waiting:
            for handle in self.as_they_answer(self.reset_timeout):
                answer = self.receive(handle)
                if isinstance(answer, StepExtras):
                    self.note(handle, answer)

    def gather(self, timeout: float | None) -> dict[WorkerHandle, Any]:
        """What the workers answer; the first failure is raised when all have answered."""
        answers: dict[WorkerHandle, Any] = {}
        failures: dict[WorkerHandle, EnvWorkerError] = {}
        try:
            for handle in self.as_they_answer(timeout):
                try:
                    answers[handle] = handle.receive()
                except WorkerDiedError as death:
                    self._reap(handle, death)
                except EnvWorkerError as failure:
                    failures[handle] = failure
        except WorkerDiedError:
            if not failures:  # a worker that has told why it cannot make its environments ends: the reason counts
                raise
        for handle in self.handles:
            if handle in failures:
                raise failures[handle]
        return answers

    def ask_all(self, calls: Sequence[Call]) -> list[Any]:
        return self.ask(list(zip(self.handles, calls, strict=True)))

    def ask(self, questions: Sequence[tuple[WorkerHandle, Call]]) -> list[Any]:
        """Put questions to workers and give their answers in the same order; a question that failed closes nothing."""
        self.require_open()
        answers: dict[WorkerHandle, Any] = {}
        with self.closing_on(WorkerDiedError):
            self.finish_pending()
            while unanswered := [(handle, call) for handle, call in questions if handle not in answers]:
                for handle, call in unanswered:
                    self._send_to_living(handle, call)
                answers |= self.gather(self.reset_timeout)
        return [answers[handle] for handle, _ in questions]

    def _send_to_living(self, handle: WorkerHandle, call: Call) -> None:
        try:
            if handle.dead:
                self._revive(handle)
            handle.send(call)
        except WorkerDiedError as death:
            self._reap(handle, death)

    def note(self, handle: WorkerHandle, extras: StepExtras) -> None:
        """Take in who was reset, who came to an end and who failed."""
        self.reset_infos |= extras.reset_infos
        for index, info in extras.infos.items():
            if "terminal_observation" in info:
                self.policy.finished(index)
        for index, failure in extras.failures.items():
            self._give_up([index], handle.failure(failure))

    def _give_up(self, indices: Sequence[int], cause: EnvWorkerError) -> None:
        """Note environments to be made again, or raise the cause."""
        self.policy.allow(indices, cause)
        for index in indices:
            self.broken.setdefault(index, cause)

    def _reap(self, handle: WorkerHandle, cause: WorkerDiedError) -> None:
        """Be done with a worker that died or hung."""
        descriptor = handle.connection.fileno()
        del self._by_descriptor[descriptor]
        if self._poller is not None:
            self._poller.unregister(descriptor)
        handle.reap()
        self._give_up(handle.indices, cause)

    def remake_broken(self, options: Sequence[dict[str, Any]]) -> dict[int, EnvWorkerError]:
        """Make environments again and reset them, with the options by index, until none is broken.

        Gives all that were, with the first cause of each.
        """
        remade: dict[int, EnvWorkerError] = {}
        while self.broken:
            remade = self.broken | remade
            for handle in self.handles:
                if mine := [index for index in handle.indices if index in self.broken]:
                    self._remake(handle, mine, options)
        return remade

    def _remake(self, handle: WorkerHandle, indices: list[int], options: Sequence[dict[str, Any]]) -> None:
        openings = [Opening(index, self.policy.fresh_seed(index), options[index]) for index in indices]
        has_new_environments = handle.dead
        try:
            if handle.dead:
                self._revive(handle)
            else:
                time.sleep(self.policy.seconds_to_wait(indices))
            extras = handle.ask(Call("open", (openings, not has_new_environments)), self.reset_timeout)
            for index in indices:  # only now: after Ctrl-C on the way here they are still to be made
                del self.broken[index]
            self.note(handle, extras)
        except WorkerDiedError as death:
            self._reap(handle, death)

    def _revive(self, handle: WorkerHandle) -> None:
        """A new worker process for the environments of a dead one, which are still to be reset."""
        time.sleep(self.policy.seconds_to_wait(handle.indices))
        self._start_worker(handle, replaces=True)
        try:
            handle.wait(seconds_to_start(self.reset_timeout))
            for method, shared in self._shared:
                handle.ask(Call(method, (shared.path, shared.layout)), self.reset_timeout)
        except WorkerDiedError:
            raise
        except EnvWorkerError as failure:  # a constructor raised; there is no worker without its environments
            raise WorkerDiedError(str(failure)) from failure

    def require_open(self) -> None:
        if self.closed:
            raise RuntimeError("this SubprocVecEnv is closed; make a new one")

    @contextlib.contextmanager
    def closing_on(self, *errors: type[BaseException]) -> Iterator[None]:
        try:
            yield
        except errors:
            self.close(SECONDS_AFTER_ERROR)
            raise

    def close(self, grace_seconds: float = SECONDS_TO_CLOSE) -> None:
        """End the workers: politely, then by force. A step under way is not waited for longer than that takes."""
        if not self.closed:
            self.closed = True
            stop_workers(self.handles, grace_seconds)
            for _, shared in self._shared:
                shared.forget_name()


def _preload_worker_module() -> None:
    """Let the fork server import this library once for all workers, if it is not running yet."""
    # multiprocessing only sets the list; what the user has set is told by a private attribute, or not kept
    server = getattr(forkserver, "_forkserver", None)
    modules = [fork_server.__name__, *getattr(server, "_preload_modules", ["__main__"]), serve.__module__]
    multiprocessing.set_forkserver_preload(list(dict.fromkeys(modules)))
