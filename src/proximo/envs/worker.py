"""The process that steps a group of environments for :class:`proximo.envs.subproc.SubprocVecEnv`.

Messages over the pipe are single bytes while stepping, pickles otherwise:

* parent → worker: ``STEP`` or ``STEP_WITH_INFOS`` (the actions lie in shared memory), ``CLOSE``, or a pickled ``Call``;
* worker → parent: ``DONE`` (all there is to say lies in shared memory), or a pickled ``Answer`` or ``Failure``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from proximo.data import Info
from proximo.envs.dummy import DummyVecEnv, StepBuffers
from proximo.envs.shared_memory import Layout, SharedArrays

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
    """What shared memory cannot hold of a step: infos, and the reset infos of the ended, by environment index."""

    infos: dict[int, Info]
    reset_infos: dict[int, Info]


class _Group(DummyVecEnv):
    def __init__(self, factories: Sequence[Callable[[], Any]], first: int) -> None:
        self.index_offset = first
        super().__init__(factories)

    def reset_with(self, seeds: list[int | None], options: list[dict[str, Any]]) -> list[Info]:
        self._seeds, self._options = seeds, options
        self.reset()
        return self.reset_infos


class Worker:
    """A group of environments, stepped exactly as in-process ones are, with their outcome in shared memory."""

    def __init__(self, pickled_factories: bytes, first: int) -> None:
        self.first = first
        self.group = _Group(cloudpickle.loads(pickled_factories), first)
        self.actions: Any = None
        self.tells_masks = False  # after all that may change them, once somebody has asked

    def spaces(self) -> tuple[Any, Any]:
        return self.group.observation_space, self.group.action_space

    def share(self, path: str, layout: Layout) -> None:
        """Use this group's rows of the shared arrays from now on."""
        rows = slice(self.first, self.first + self.group.num_envs)
        arrays = {name: array[rows] for name, array in SharedArrays(path, layout).arrays.items()}
        self.actions = arrays.pop("actions", None)
        self.group.bind(StepBuffers.of_arrays(arrays))

    def share_masks(self, path: str, layout: Layout) -> None:
        """Write action masks into this group's rows of shared memory from now on, beside the observations."""
        rows = slice(self.first, self.first + self.group.num_envs)
        self.group.share_masks(SharedArrays(path, layout).arrays["action_masks"][rows])
        self.tells_masks = True

    def reset(self, seeds: list[int | None], options: list[dict[str, Any]]) -> list[Info]:
        infos = self.group.reset_with(seeds, options)
        if self.tells_masks:
            self.group.action_masks()
        return infos

    def step(self, with_infos: bool, actions: Any = None) -> StepExtras | None:
        """Step once; None when shared memory says it all."""
        actions = self.actions if actions is None else actions
        if with_infos:
            infos = dict(enumerate(self.group.step(actions)[3]))
        else:
            infos = dict(self.group.step_arrays(actions).infos)
        if self.tells_masks:
            self.group.action_masks()
        if not infos and not with_infos:
            return None
        reset_infos = {
            index: self.group.reset_infos[index] for index in infos if "terminal_observation" in infos[index]
        }
        return StepExtras(self._numbered(infos), self._numbered(reset_infos))

    def _numbered(self, infos: dict[int, Info]) -> dict[int, Info]:
        return {self.first + index: info for index, info in infos.items()}

    def call(self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a method of the group, such as ``get_attr``."""
        result = getattr(self.group, method)(*arguments, **keywords)
        if self.tells_masks and method in ("env_method", "set_attr"):
            self.group.action_masks()
        return result


def serve(
    connection: Connection,
    inherited: Sequence[Connection],
    pickled_factories: bytes,
    first: int,
    seconds_awake: float,
) -> None:
    """The worker process: make the environments, then answer until told to close or the parent is gone."""
    for other in inherited:  # of a forked worker: held open, they would hide the parent's end from its siblings
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with contextlib.suppress(EOFError, ConnectionError), connection:  # both mean that the parent is gone
        try:
            worker = Worker(pickled_factories, first)
        except Exception as error:  # the parent raises it
            connection.send_bytes(_failure(error))
            return
        try:
            connection.send_bytes(pickle.dumps(Answer(worker.spaces())))
            while (message := _next_message(connection, seconds_awake)) != CLOSE:
                connection.send_bytes(_outcome(worker, message))
        finally:
            worker.group.close()


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
        return _failure(error)


def _failure(error: Exception) -> bytes:
    summary = "".join(traceback.format_exception_only(error)).splitlines()[0]
    text = "".join(traceback.format_exception(error))
    return pickle.dumps(Failure(getattr(error, "environment_index", None), summary, text))
