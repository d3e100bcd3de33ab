"""The process that steps a group of environments for :class:`proximo.envs.workers.subproc.SubprocVecEnv`.

Messages over the pipe are single bytes while stepping, pickles otherwise:

* parent → worker: ``STEP`` or ``STEP_WITH_INFOS`` (the actions lie in shared memory), ``CLOSE``, or a pickled ``Call``;
* worker → parent: ``DONE`` (all there is to say lies in shared memory), or a pickled ``Answer`` or ``Failure``.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np

from proximo.data import Array, Info
from proximo.envs.vector.dummy import DummyVecEnv, StepBuffers, require_gymnasium_env
from proximo.envs.workers.fork_server import leave_signals_to_parent
from proximo.envs.workers.shared_memory import Layout, SharedArrays
from proximo.envs.wrappers.action_masker import EXPECTED_METHOD_NAME
from proximo.envs.wrappers.monitor import going_on_with_files
from proximo.errors import EnvironmentStateError

NOBODY = -1  # at work, where the index of an environment is expected
_SECONDS_AFTER_PARENT = 5.0  # for closing the environments when the parent is gone

if sys.platform == "linux":
    import fcntl

STEP, STEP_WITH_INFOS, CLOSE, DONE = b"s", b"i", b"c", b"."


class Call(NamedTuple):
    """Run a method of :class:`Worker`."""

    method: str
    arguments: tuple[Any, ...] = ()


class Answer(NamedTuple):
    value: Any


class Failure(NamedTuple):
    environment: int | None  # its index; None if no single one is to blame
    error: str
    traceback: str


class StepExtras(NamedTuple):
    """What shared memory cannot hold of a step or reset, by environment index."""

    infos: dict[int, Info]
    reset_infos: dict[int, Info]  # of those that were reset
    failures: dict[int, Failure]  # of those that raised, whose row means nothing (but for an end that is in ``infos``)


class Opening(NamedTuple):
    """How an environment is to be reset."""

    environment: int  # its index
    seed: int | None
    options: dict[str, Any]


class _Group(DummyVecEnv):
    """Environments of which one that raises in a step or reset stops none of the others."""

    def __init__(self, factories: Sequence[Callable[[], Any]], first: int) -> None:
        self.index_offset = first
        self.factories = factories
        self.failures: dict[int, Failure] = {}  # since the last question, by index among all environments
        self.at_work: Array = np.full(1, NOBODY)  # the environment that runs now; in shared memory once there is some
        super().__init__(factories)

    def _advance(self, actions: Any) -> None:
        if self._final_observations:
            self._clear_ends()
        turns, all_stepped = self._in_turn(), False
        while not all_stepped:
            try:
                self._step_all(actions, turns)
                all_stepped = True
            except Exception as error:  # the parent decides what becomes of the environment
                self.keep(error)

    def _in_turn(self) -> Iterator[tuple[int, gym.Env[Any, Any]]]:
        at_work, offset = self.at_work, self.index_offset
        for index, env in enumerate(self.envs):
            at_work[0] = offset + index
            yield index, env

    @contextlib.contextmanager
    def _blame(self, index: int) -> Iterator[None]:
        self.at_work[0] = self.index_offset + index
        with super()._blame(index):
            yield

    def keep(self, error: Exception) -> None:
        """Keep what an environment raised for the parent; what none is to blame for is raised."""
        failure = _describe(error)
        if failure.environment is None:
            raise error
        self.failures.setdefault(failure.environment, failure)  # what comes later may follow from it

    def open(self, openings: Sequence[Opening], rebuild: bool) -> None:
        """Reset environments; ``rebuild`` makes them again first."""
        if not rebuild:  # then it is all of them: otherwise the others have an end to tell, or are amidst an episode
            self._clear_ends()
        for environment, seed, options in openings:
            index = environment - self.index_offset
            try:
                if rebuild:
                    self._make_again(index)
                self._reset_one(index, seed, options)
            except Exception as error:
                self.keep(error)

    def _make_again(self, index: int) -> None:
        with contextlib.suppress(Exception):  # it is broken: what its close() says adds nothing
            self.envs[index].close()
        with self._blame(index), going_on_with_files():
            self.envs[index] = require_gymnasium_env(self.factories[index]())
        if self._masks is not None:
            self._masks.methods = self.get_attr(EXPECTED_METHOD_NAME)


class Worker:
    """A group of environments, stepped exactly as in-process ones are, with their outcome in shared memory."""

    def __init__(self, pickled_factories: bytes, first: int) -> None:
        self.first = first
        self.group = _Group(cloudpickle.loads(pickled_factories), first)
        self.actions: Any = None
        self.sends_masks = False  # after all that may change them, once somebody has asked

    def spaces(self) -> tuple[Any, Any]:
        return self.group.observation_space, self.group.action_space

    def share(self, path: str, layout: Layout) -> None:
        """Use this group's rows of the shared arrays from now on."""
        rows = slice(self.first, self.first + self.group.num_envs)
        arrays = {name: array[rows] for name, array in SharedArrays(path, layout).arrays.items()}
        self.actions = arrays.pop("actions", None)
        self.group.at_work = arrays.pop("at_work")[:1]
        self.group.bind(StepBuffers.of_arrays(arrays))

    def share_masks(self, path: str, layout: Layout) -> None:
        """Write action masks into this group's rows of shared memory from now on, beside the observations."""
        rows = slice(self.first, self.first + self.group.num_envs)
        self.group.share_masks(SharedArrays(path, layout).arrays["action_masks"][rows])
        self.sends_masks = True

    def open(self, openings: Sequence[Opening], rebuild: bool) -> StepExtras:
        """Reset environments; ``rebuild`` makes them again first."""
        self.group.open(openings, rebuild)
        self._tell_masks()
        return self._extras({}, {opening.environment - self.first for opening in openings})

    def step(self, with_infos: bool, actions: Any = None) -> StepExtras | None:
        """Step once; None when shared memory says it all."""
        if actions is None:
            actions = self.actions.copy()  # an environment may keep its action, and the next one overwrites it
        if with_infos:
            infos = dict(enumerate(self.group.step(actions)[3]))
        else:
            infos = dict(self.group.step_arrays(actions).infos)
        self._tell_masks()
        if not infos and not with_infos and not self.group.failures:
            return None
        return self._extras(infos, {index for index in infos if "terminal_observation" in infos[index]})

    def _extras(self, infos: dict[int, Info], were_reset: set[int]) -> StepExtras:
        failures, self.group.failures = self.group.failures, {}
        reset_infos = {index: self.group.reset_infos[index] for index in were_reset}
        return StepExtras(self._numbered(infos), self._numbered(reset_infos), failures)

    def _numbered(self, infos: dict[int, Info]) -> dict[int, Info]:
        return {self.first + index: info for index, info in infos.items()}

    def _tell_masks(self) -> None:
        if self.sends_masks:
            try:
                self.group.action_masks()
            except Exception as error:
                self.group.keep(error)

    def call(self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a method of the group, such as ``get_attr``."""
        result = getattr(self.group, method)(*arguments, **keywords)
        if self.sends_masks and method in ("env_method", "set_attr"):
            self.group.action_masks()
        return result

    def call_for_state(self, method: str, *arguments: Any) -> Any:
        """Like :meth:`call`; that there is no state is an answer too, for the parent to raise as it is."""
        try:
            answer = self.call(method, arguments, {})
        except EnvironmentStateError as error:
            return error
        if self.sends_masks:
            self.group.action_masks()
        return answer


def serve(
    connection: Connection,
    inherited: Sequence[Connection],
    pickled_factories: bytes,
    first: int,
    seconds_awake: float,
    replaces: bool,
) -> None:
    """The worker process: make the environments, then answer until told to close or the parent is gone.

    ``replaces`` says that there was a worker for these environments before.
    """
    gc.freeze()  # a forked worker has the parent's garbage too: an EnvPool there, freed here, would end this process
    gc.enable()
    for other in inherited:  # of a forked worker: held open, they would hide the parent's end from its siblings
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    leave_signals_to_parent()  # a forked worker has the parent's handlers, which are not for it
    threading.Thread(target=_end_after_parent, args=(os.getppid(),), daemon=True).start()
    _be_killed_after_parent()
    with contextlib.suppress(EOFError, ConnectionError), connection:  # both mean that the parent is gone
        try:
            with going_on_with_files() if replaces else contextlib.nullcontext():
                worker = Worker(pickled_factories, first)
        except Exception as error:  # the parent raises it
            connection.send_bytes(pickle.dumps(_describe(error)))
            return
        gc.collect()
        gc.freeze()  # modules and environments stay: the collector need not look at them again and again
        try:
            connection.send_bytes(pickle.dumps(Answer(worker.spaces())))
            while (message := _next_message(connection, seconds_awake)) != CLOSE:
                connection.send_bytes(_outcome(worker, message))
        finally:
            worker.group.close()


def _be_killed_after_parent() -> None:
    """Have Linux kill this process when the parent's end of the pipe behind its sentinel is closed.

    The thread that watches the parent gets no turn while an environment is in foreign code that keeps Python's lock.
    """
    parent = multiprocessing.parent_process()
    if sys.platform == "linux" and parent is not None:
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)  # instead of SIGIO
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def _end_after_parent(parent_id: int) -> None:
    """End this process soon after its parent, whatever an environment may be busy with."""
    parent = multiprocessing.parent_process()
    # the sentinel behind `parent` tells at once; forked siblings may hold it open, but the id changes
    while parent is not None and parent.is_alive() and os.getppid() == parent_id:
        parent.join(1.0)
    time.sleep(_SECONDS_AFTER_PARENT)
    os._exit(1)


def _next_message(connection: Connection, seconds_awake: float) -> bytes:
    """Wait for a message, the first moments of it without sleeping: a core that sleeps wakes up too late for a step."""
    deadline = time.perf_counter() + seconds_awake
    while time.perf_counter() < deadline and not connection.poll(0):
        os.sched_yield()
    return connection.recv_bytes()


def _outcome(worker: Worker, message: bytes) -> bytes:
    try:
        if message in (STEP, STEP_WITH_INFOS):
            value: Any = worker.step(message == STEP_WITH_INFOS)
        else:
            call: Call = cloudpickle.loads(message)
            value = getattr(worker, call.method)(*call.arguments)
        return DONE if value is None else pickle.dumps(Answer(value))
    except Exception as error:
        return pickle.dumps(_describe(error))
    finally:
        worker.group.at_work[0] = NOBODY


def _describe(error: Exception) -> Failure:
    summary = "".join(traceback.format_exception_only(error)).splitlines()[0]
    text = "".join(traceback.format_exception(error))
    return Failure(getattr(error, "environment_index", None), summary, text)
