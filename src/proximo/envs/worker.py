"""The process that steps a group of environments for :class:`proximo.envs.subproc.SubprocVecEnv`.

Messages over the pipe are single bytes while stepping, pickles otherwise:

* parent → worker: ``STEP`` or ``STEP_WITH_INFOS`` (actions lie in shared memory), or a pickled ``Call``;
* worker → parent: ``DONE`` (nothing but what is in shared memory), or a pickled ``Answer`` or ``Failure``.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from proximo.data import Array, Info
from proximo.envs.dummy import DummyVecEnv, StepBuffers
from proximo.envs.shared_memory import Layout, SharedArrays
from proximo.envs.vec_env import VecEnvStepReturn

STEP, STEP_WITH_INFOS, DONE = b"s", b"i", b"."


class Call(NamedTuple):
    """Run a method of :class:`Worker`."""

    method: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}  # noqa: RUF012, never changed


class Answer(NamedTuple):
    value: Any


class Failure(NamedTuple):
    """What went wrong; ``index`` counts within the group, None if no single environment is to blame."""

    index: int | None
    error: str
    traceback: str
    is_attribute_error: bool


class Endings(NamedTuple):
    """What shared memory cannot hold of a step: infos, and reset infos of the ended, by index within the group."""

    infos: dict[int, Info]
    reset_infos: dict[int, Info]


class Worker:
    """A group of environments, stepped exactly as in-process ones are, with their outcome in shared memory."""

    def __init__(self, factories: Sequence[Callable[[], Any]]) -> None:
        self.group: DummyVecEnv = _Group(factories)
        self.actions: Any = None

    def spaces(self) -> tuple[Any, Any]:
        return self.group.observation_space, self.group.action_space

    def share(self, path: str, layout: Layout, first: int) -> None:
        """Write into this group's rows of the shared arrays from now on."""
        rows = slice(first, first + self.group.num_envs)
        arrays: dict[str, Array] = {name: array[rows] for name, array in SharedArrays(path, layout).arrays.items()}
        self.actions = arrays.pop("actions", None)
        self.group.bind(StepBuffers.of_arrays(arrays))

    def reset(self, seeds: list[int | None], options: list[dict[str, Any]]) -> list[Info]:
        self.group._seeds, self.group._options = seeds, options
        self.group.reset()
        return self.group.reset_infos

    def step(self, with_infos: bool, actions: Any = None) -> Endings | None:
        """Step once; None when shared memory says it all."""
        actions = self.actions if actions is None else actions
        if with_infos:
            self.group.step_async(actions)
            infos = dict(enumerate(self.group.step_wait()[3]))
        else:
            infos = dict(self.group.step_arrays(actions).infos)
            if not infos:
                return None
        ended = [index for index, info in infos.items() if "terminal_observation" in info]
        return Endings(infos, {index: self.group.reset_infos[index] for index in ended})

    def call(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self.group, method)(*arguments, **keywords)


class _Group(DummyVecEnv):
    """Says which factory failed."""

    def __init__(self, factories: Sequence[Callable[[], Any]]) -> None:
        self.num_envs = len(factories)
        super().__init__([self._blamed(index, factory) for index, factory in enumerate(factories)])

    def _blamed(self, index: int, factory: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Any:
            with self._blame(index):
                return factory()

        return make

    def step_wait(self) -> VecEnvStepReturn:  # the arrays are in shared memory, so only the infos are built
        return super().step_wait()

    step_arrays = DummyVecEnv.step_arrays


def serve(connection: Connection, pickled_factories: bytes, inherited: Sequence[Connection]) -> None:
    """The worker process: make the environments, then answer until told to close or the parent is gone."""
    for other in inherited:  # a forked worker holds its siblings' pipes too, which would hide their ends
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    worker: Worker | None = None
    try:
        worker = Worker(cloudpickle.loads(pickled_factories))
        connection.send_bytes(pickle.dumps(Answer(worker.spaces())))
        while True:
            message = connection.recv_bytes()
            if message == STEP or message == STEP_WITH_INFOS:
                _respond(connection, worker, Call("step", (message == STEP_WITH_INFOS,)))
            else:
                call = pickle.loads(message)
                if call.method == "close":
                    break
                _respond(connection, worker, call)
    except (EOFError, ConnectionError):
        pass  # the parent is gone
    finally:
        if worker is not None:
            worker.group.close()
        connection.close()


def _respond(connection: Connection, worker: Worker, call: Call) -> None:
    ...
