"""Worker processes as their parent sees them, and what becomes of environments that fail."""

from __future__ import annotations

import contextlib
import gc
import pickle
import signal
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from proximo.data import Array
from proximo.envs.workers.worker import CLOSE, DONE, NOBODY, Answer, Call, Failure, serve
from proximo.errors import EnvWorkerError

SECONDS_TO_CLOSE = 5.0  # for a worker to close its environments before it is killed
SECONDS_AFTER_ERROR = 0.5  # the same when the error is what the user waits for
_SECONDS_TO_START = 60.0  # at least, for a process to import what its environments need
_SECONDS_TO_DIE = 1.0  # from the end of the pipe to the end of the process
_HOUR = 3600.0  # seconds
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 5.0  # seconds before an environment that failed twice is made again


class WorkerDiedError(EnvWorkerError):
    """A worker process is gone: it died, or was killed because an environment did not come back."""


class WorkerHandle:
    """The parent's end of one worker, which may be started again after its death."""

    process: BaseProcess
    connection: Connection

    def __init__(self, context: Any, factories: bytes, indices: range, seconds_awake: float) -> None:
        self.context = context
        self.factories = factories
        self.indices = indices
        self.seconds_awake = seconds_awake
        self.awaiting = False  # an answer
        self.dead = True
        self.at_work: Array = np.full(1, NOBODY)  # [1] the environment that runs now; written by the worker

    def start(self, siblings: Iterable[WorkerHandle], replaces: bool = False) -> None:
        """Start the process; its first answer, unasked, tells the spaces."""
        self.connection, theirs = self.context.Pipe()
        forked = self.context.get_start_method() == "fork"
        inherited = [handle.connection for handle in siblings if not handle.dead] + [self.connection]
        self.at_work[0] = NOBODY
        self.process = self.context.Process(
            target=serve,
            args=(
                theirs,
                inherited if forked else [],
                self.factories,
                self.indices[0],
                self.seconds_awake,
                replaces,
            ),
            daemon=True,
        )
        with _without_collector():  # until the worker has put the parent's garbage aside
            self.process.start()
        theirs.close()  # so that the worker's death reads as the end of the pipe
        self.awaiting, self.dead = True, False

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

    def ask(self, call: Call, timeout: float | None) -> Any:
        """Ask this worker alone."""
        self.send(call)
        return self.wait(timeout)

    def wait(self, timeout: float | None) -> Any:
        """The answer that this worker owes."""
        if not self.connection.poll(timeout):
            raise self.hang(timeout)
        return self.receive()

    def failure(self, failure: Failure) -> EnvWorkerError:
        who = f"environment {failure.environment}" if failure.environment is not None else self.environments()
        return EnvWorkerError(
            f"{who} failed in worker process {self.process.pid}: {failure.error}\n\n"
            f"the worker's traceback:\n{failure.traceback}"
        )

    def death(self) -> WorkerDiedError:
        _await_end([self.process], _SECONDS_TO_DIE)
        code = self.process.exitcode
        if code is None:
            how = "closed its pipe without ending"
        elif code < 0:
            how = f"was killed by signal {_signal_name(-code)}"
        else:
            how = f"ended with exit code {code}"
        running = int(self.at_work[0])
        where = "" if running == NOBODY else f" while environment {running} was at work"
        return WorkerDiedError(f"worker process {self.process.pid}, which runs {self.environments()}, {how}{where}")

    def hang(self, timeout: float | None) -> WorkerDiedError:
        """The error for an answer that did not come in time. Kills the worker: nothing else ends an endless step."""
        running = int(self.at_work[0])
        who = self.environments() if running == NOBODY else f"environment {running}"
        self.process.kill()
        return WorkerDiedError(
            f"{who} did not come back within {timeout:g} s, so worker process {self.process.pid}, which runs "
            f"{self.environments()}, was killed; set step_timeout or reset_timeout higher if this time is needed"
        )

    def reap(self) -> None:
        """Make sure that nothing is left of a worker that failed."""
        self.dead, self.awaiting = True, False
        self.process.kill()
        self.process.join()
        self.connection.close()

    def environments(self) -> str:
        first, last = self.indices[0], self.indices[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def seconds_to_start(reset_timeout: float | None) -> float | None:
    """How long a worker may take to make its environments."""
    return None if reset_timeout is None else max(reset_timeout, _SECONDS_TO_START)


def stop_workers(handles: Sequence[WorkerHandle], grace_seconds: float) -> None:
    """Ask the workers to end, then make sure."""
    alive = [handle for handle in handles if not handle.dead]
    for handle in alive:
        with contextlib.suppress(OSError):
            handle.connection.send_bytes(CLOSE)
        handle.connection.close()  # also frees a worker that is stuck sending what nobody reads
        handle.dead, handle.awaiting = True, False
    processes = [handle.process for handle in alive]
    _await_end(processes, grace_seconds)
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


def _await_end(processes: Sequence[BaseProcess], seconds: float) -> None:
    """Wait until all have ended or the time is over. ``join`` would wait for ever for one that closed its files."""
    deadline = time.monotonic() + seconds
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.002)


class RestartPolicy:
    """Whether, how soon and with which seed environments that failed are made again."""

    clock = staticmethod(time.monotonic)

    def __init__(
        self, num_envs: int, on_env_failure: str, max_restarts: int, restarts_per_hour: int | None = None
    ) -> None:
        if on_env_failure not in ("raise", "restart"):
            raise ValueError(f"on_env_failure must be 'raise' or 'restart', got {on_env_failure!r}")
        if max_restarts < 0:
            raise ValueError(f"max_restarts must be at least 0, got {max_restarts}")
        if restarts_per_hour is not None and restarts_per_hour < 1:
            raise ValueError(f"restarts_per_hour must be at least 1, or None for no limit, got {restarts_per_hour}")
        self.restarts = on_env_failure == "restart"
        self.max_restarts = max_restarts
        self.restarts_per_hour = restarts_per_hour
        self.moments: list[list[float]] = [[] for _ in range(num_envs)]  # of the restarts of the last hour
        self.counts = [0] * num_envs  # restarts so far
        self.in_a_row = [0] * num_envs  # of these, since the environment last finished an episode
        self.seeds: list[int | None] = [None] * num_envs  # latest given for a reset

    def remember(self, seeds: Sequence[int | None]) -> None:
        """Keep the seeds of a reset; without any, those of an earlier one stay."""
        self.seeds = [old if new is None else new for old, new in zip(self.seeds, seeds, strict=True)]

    def allow(self, indices: Sequence[int], cause: EnvWorkerError) -> None:
        """Count a restart of these environments and warn of it; raise the cause where there is to be none."""
        if not self.restarts:
            raise cause
        for index in indices:
            self.counts[index] += 1
            self.in_a_row[index] += 1
        most = max(self.counts[index] for index in indices)
        within_the_hour = max(self._count_within_the_hour(index) for index in indices)
        who = f"environment {indices[0]}" if len(indices) == 1 else f"environments {indices[0]} to {indices[-1]}"
        if most > self.max_restarts:
            raise type(cause)(
                f"{who} failed once more after max_restarts={self.max_restarts} restarts: {cause}"
            ) from cause
        if self.restarts_per_hour is not None and within_the_hour > self.restarts_per_hour:
            raise type(cause)(
                f"{who} failed {within_the_hour} times within an hour, more than restarts_per_hour="
                f"{self.restarts_per_hour}: {cause}"
            ) from cause
        warnings.warn(
            f"{summary(cause)}; {who} made again (restart {most} of at most {self.max_restarts}), "
            "an episode under way counts as truncated",
            RuntimeWarning,
            stacklevel=2,
        )

    def _count_within_the_hour(self, index: int) -> int:
        """Restarts of an environment in the last hour, one more now."""
        now = self.clock()
        self.moments[index] = [moment for moment in self.moments[index] if now - moment < _HOUR] + [now]
        return len(self.moments[index])

    def finished(self, index: int) -> None:
        """Note that an environment came to the end of an episode."""
        self.in_a_row[index] = 0

    def seconds_to_wait(self, indices: Iterable[int]) -> float:
        """Before these are made again: nothing at first, then twice as long with every failure in a row."""
        failures = max(self.in_a_row[index] for index in indices)
        return 0.0 if failures < 2 else float(min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(failures - 2, 30)))

    def fresh_seed(self, index: int) -> int | None:
        """For the first reset after a restart: from the environment's seed and the number of its restarts.

        A replayed seed might replay the failure.
        """
        seed = self.seeds[index]
        return None if seed is None else int(np.random.SeedSequence([seed, self.counts[index]]).generate_state(1)[0])


def summary(cause: EnvWorkerError) -> str:
    """The first line: what happened, without the traceback."""
    return str(cause).split("\n", 1)[0]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)
