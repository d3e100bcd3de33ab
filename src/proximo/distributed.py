"""Processes that train together: who they are, how they exchange arrays, how the failure of one reaches all.

``torchrun`` tells each process its place by environment variables, SLURM's ``srun`` does too. :func:`join` reads them
and makes the :class:`Group`, once per process; it gives None to a process that is alone.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import re
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from proximo.data import Array, Share
from proximo.errors import DistributedError

Value = TypeVar("Value")

TIMEOUT_VARIABLE = "PROXIMO_TIMEOUT"
DEFAULT_TIMEOUT = 600.0  # seconds without a sign of life
CHECK_EVERY = 1.0  # seconds between two looks at the others
SMALL = 1024  # bytes of a message that needs no second round
FAILURE = "proximo/failure"
START = "proximo/start"


class Launch(NamedTuple):
    """A process's place among those that were started together.

    Arguments:
        rank: This process's number, from 0.
        world_size: How many processes there are.
        port: Where the first process listens.
    """

    rank: int
    world_size: int
    address: str  # where rank 0 listens
    port: int


def launch_of(variables: Mapping[str, str]) -> Launch | None:
    """What ``torchrun`` or SLURM said in the environment variables; None for a process that is alone.

    >>> launch_of({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"})
    Launch(rank=1, world_size=2, address='10.0.0.1', port=29500)
    >>> launch_of({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "gpu[07-08]",
    ...            "SLURM_JOB_ID": "123"})
    Launch(rank=3, world_size=4, address='gpu07', port=20123)
    """
    if "RANK" in variables and "WORLD_SIZE" in variables:
        rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
    elif "SLURM_PROCID" in variables and "SLURM_STEP_NUM_TASKS" in variables:  # the second is set by srun alone
        rank, size = int(variables["SLURM_PROCID"]), int(variables["SLURM_STEP_NUM_TASKS"])
    else:
        return None
    if size < 2:
        return None
    address = variables.get("MASTER_ADDR") or _first_host(variables.get("SLURM_STEP_NODELIST", ""))
    port = int(variables.get("MASTER_PORT") or 20_000 + int(variables.get("SLURM_JOB_ID", 0)) % 10_000)
    return Launch(rank, size, address or "127.0.0.1", port)


def _first_host(nodes: str) -> str:
    """
    >>> _first_host("node[03-05,9],other"), _first_host("alone"), _first_host("a1,a2")
    ('node03', 'alone', 'a1')
    """
    match = re.match(r"([^\[,]*)(?:\[(\w+))?", nodes)
    return "" if match is None else f"{match[1]}{match[2] or ''}"


def is_first() -> bool:
    """Whether this process writes and prints: rank 0, or one that is alone."""
    launch = launch_of(os.environ)
    return launch is None or launch.rank == 0


@cache
def join() -> Group | None:
    """The group of this process, made when first asked for: all of its processes must ask. None for one alone."""
    launch = launch_of(os.environ)
    return None if launch is None else Group(launch)


def show_life(activity: str | None = None) -> None:
    """Tell the others, if this process is in a group, that it is alive, and what it is doing."""
    if join.cache_info().currsize and (group := join()) is not None:
        group.show_life(activity)


class Status(NamedTuple):
    """What a process says of itself every second.

    Arguments:
        doing: The last thing that the process began, in words.
    """

    doing: str = "starting"
    exchanges: int = 0  # that it has begun
    silent: float = 0.0  # seconds since it last showed life


class Group:
    """All processes of a training. Every exchange is one that all of them must come to, in the same order.

    They trust each other: values travel pickled.

    Whoever waits looks at the others once a second. A process that failed is raised here as ``DistributedError`` with
    its traceback; one that has shown no life for ``PROXIMO_TIMEOUT`` seconds (600) is named with what it was doing. A
    process that steps, evaluates or updates shows life, so others may wait for it as long as it takes.
    """

    def __init__(self, launch: Launch) -> None:
        """Arguments:
        launch: This process's place among those that were started together.
        """
        self.rank, self.world_size = launch.rank, launch.world_size
        self.timeout = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))
        self.messages = self.bytes = 0  # exchanges, and bytes that this process gave to them
        self._doing, self._seen_alive = Status().doing, time.monotonic()
        self._failure: str | None = None  # of another process
        self._posted = self._waiting = False
        self._heard: dict[int, tuple[Status, float]] = {}  # what the others said while this one waits, and when
        self._connect(launch)
        store: Any = distributed.distributed_c10d._get_default_store()
        self._store, watched = store.clone(), store.clone()  # each thread has a connection of its own
        self._publish(self._store)
        self._looks = 0  # at whether another process has failed
        self._ended, self._wanted = False, threading.Event()  # a look at the others, before its time
        self._watch = threading.Thread(target=self._watch_others, args=(watched,), name="proximo-group", daemon=True)
        self._watch.start()
        atexit.register(self._end_watch)
        self._hook = sys.excepthook
        sys.excepthook = self._post_uncaught

    def _connect(self, launch: Launch) -> None:
        if distributed.is_initialized():
            return
        os.environ.update(
            RANK=str(launch.rank),
            WORLD_SIZE=str(launch.world_size),
            MASTER_ADDR=launch.address,
            MASTER_PORT=str(launch.port),
        )
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        limit = timedelta(seconds=self.timeout)
        try:
            store, _, _ = next(rendezvous("env://", launch.rank, launch.world_size, timeout=limit))
            store = PrefixStore(self._agree_on_start(store), store)
            distributed.init_process_group(
                backend,
                store=store,
                rank=launch.rank,
                world_size=launch.world_size,
                timeout=limit / 5,  # gloo waits for a connection five times as long as it is told
            )
        except DistributedError:
            raise
        except RuntimeError as error:
            raise DistributedError(
                f"rank {launch.rank} has not found all of the {launch.world_size} processes at "
                f"{launch.address}:{launch.port} within {self.timeout:.0f} s: has one not been started, or can it not "
                f"reach that address? ({error})"
            ) from error
        # from here on, how long to wait is decided by who shows life, of which gloo's own limit knows nothing
        distributed.distributed_c10d._set_pg_timeout(timedelta(days=7))

    def _agree_on_start(self, store: Any) -> str:
        """A name for this start of the processes, the same for all of them, and for no other start.

        torchrun has one store for all its restarts: what ended processes wrote there must not be taken for the words
        of those that follow them. So rank 0 answers what each process says now, until each has seen its answer.
        """
        own, others = uuid.uuid4().hex, range(1, self.world_size)
        store.set(f"{START}/{self.rank}", own)
        missing, deadline = [0], time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            if self.rank == 0:
                store.set(START, json.dumps([own, [_read(store, f"{START}/{rank}") for rank in others]]))
                missing = [rank for rank in others if _read(store, f"{START}/{rank}/met") != own]
                if not missing:
                    return own
            else:
                name, heard = json.loads(_read(store, START) or '["", []]')
                if own in heard:
                    store.set(f"{START}/{self.rank}/met", name)
                    return str(name)
            time.sleep(0.02)
        raise DistributedError(
            f"rank {self.rank} has waited {self.timeout:.0f} s for rank {', '.join(map(str, missing))} of "
            f"{self.world_size} to start: look at that process, or its machine; {TIMEOUT_VARIABLE} sets the time"
        )

    # -- exchanges

    def gather_bytes(self, own: Array, sizes: Sequence[int], what: str) -> list[Array]:
        """Every process's bytes, by rank; ``own`` is uint8, and all know the ``sizes``, which may differ."""
        largest = max(sizes)
        sent = torch.zeros(largest, dtype=torch.uint8)
        sent.numpy()[: len(own)] = own
        received = [torch.empty_like(sent) for _ in sizes]
        self._count_exchange(largest)
        self._wait(distributed.all_gather(received, sent, async_op=True), what)
        return [part.numpy()[:size] for part, size in zip(received, sizes, strict=True)]

    def gather_rows(self, pairs: Sequence[tuple[Array, Array, int]], shares: Sequence[Share], what: str) -> None:
        """Fill the second array of each pair with all processes' first ones, whose rows lie along the third's axis."""
        sent = np.concatenate([np.ascontiguousarray(own).reshape(-1).view(np.uint8) for own, _, _ in pairs])
        count = shares[self.rank].count
        received = self.gather_bytes(sent, [len(sent) // count * share.count for share in shares], what)
        for share, data in zip(shares, received, strict=True):
            start = 0
            for own, target, axis in pairs:
                shape = (*own.shape[:axis], share.count, *own.shape[axis + 1 :])
                size = own.nbytes // count * share.count
                target[(slice(None),) * axis + (share.rows,)] = (
                    data[start : start + size].view(own.dtype).reshape(shape)
                )
                start += size

    def gather(self, value: Any, what: str) -> list[Any]:
        """Every process's value, by rank; small ones in one message, large ones in two."""
        own = np.frombuffer(pickle.dumps(value), np.uint8)
        received = self.gather_bytes(_opening(own), [SMALL] * self.world_size, what)
        sizes = [_size_in(part) for part in received]
        if max(sizes) <= SMALL - 8:
            parts = [part[8 : 8 + size] for part, size in zip(received, sizes, strict=True)]
        else:
            parts = self.gather_bytes(own, sizes, what)
        return [pickle.loads(part.tobytes()) for part in parts]

    def first(self, value: Value, what: str) -> Value:
        """Rank 0's value, for all; what the others give is not looked at."""
        own = np.frombuffer(pickle.dumps(value if self.rank == 0 else None), np.uint8)
        opening = torch.from_numpy(_opening(own))
        self._send_first(opening, what)
        size = _size_in(opening.numpy())
        if size <= SMALL - 8:
            data = opening[8 : 8 + size]
        else:
            data = torch.from_numpy(own.copy()) if self.rank == 0 else torch.empty(size, dtype=torch.uint8)
            self._send_first(data, what)
        received: Value = pickle.loads(data.numpy().tobytes())
        return received

    def _send_first(self, tensor: Tensor, what: str) -> None:
        self._count_exchange(tensor.numel())
        self._wait(distributed.broadcast(tensor, 0, async_op=True), what)

    def highest(self, numbers: Sequence[float], what: str) -> list[float]:
        """The highest of each number over all processes; of truth values, whether any is true."""
        return [max(column) for column in zip(*self.gather([float(number) for number in numbers], what), strict=True)]

    def sum(self, tensor: Tensor, what: str = "a sum") -> None:
        """Replace a tensor by the sum over all processes, which has the same bits for all of them."""
        self._count_exchange(tensor.numel() * tensor.element_size())
        work = distributed.all_reduce(tensor, async_op=True)
        if tensor.device.type == "cpu":
            self._wait(work, what)
        else:
            work.wait()  # the device waits, not the host

    def sums(self, numbers: Array, what: str) -> Array:
        """The sums over all processes of an array, in float64."""
        total = torch.from_numpy(np.array(numbers, np.float64))
        self.sum(total, what)
        return total.numpy()

    def shares(self, rows: int, what: str) -> list[Share]:
        """Which rows each process has, by rank, of those that all have together; this one has ``rows``."""
        counts = self.gather(rows, what)
        starts = np.cumsum([0, *counts])
        return [Share(int(start), count, int(starts[-1])) for start, count in zip(starts, counts, strict=False)]

    def own_part(self, total: int) -> int:
        """How many of ``total`` things are this process's to do; the first ones have one more where any are left."""
        each, left = divmod(total, self.world_size)
        return each + (self.rank < left)

    # -- signs of life

    def show_life(self, activity: str | None = None) -> None:
        """Note that this process goes on, and what it is doing; raises here what failed elsewhere."""
        self._seen_alive = time.monotonic()
        if activity is not None:
            self._doing = activity
        if self._failure is not None:
            raise DistributedError(self._failure)

    def _count_exchange(self, size: int) -> None:
        self.show_life()
        self.messages += 1
        self.bytes += size

    def _publish(self, store: Any) -> None:
        status = Status(self._doing, self.messages, time.monotonic() - self._seen_alive)
        store.set(f"proximo/status/{self.rank}", json.dumps(status))

    def _watch_others(self, store: Any) -> None:
        """Publish this process's status, look whether another one has failed, and while this one waits, for whom.

        A connection that is cut blocks this thread; the one that waits sees that nothing new arrives.
        """
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        try:
            while True:
                self._publish(store)
                if self._failure is None and store.check([FAILURE]):
                    rank, text = json.loads(store.get(FAILURE))
                    if rank != self.rank:
                        self._failure = f"rank {rank} failed, so this rank {self.rank} ends too:\n{text}"
                self._looks += 1
                if self._waiting:
                    texts = store.multi_get([f"proximo/status/{rank}" for rank in others])
                    for rank, text in zip(others, texts, strict=True):
                        status = Status(*json.loads(text))
                        if rank not in self._heard or self._heard[rank][0] != status:
                            self._heard[rank] = (status, time.monotonic())
                self._wanted.wait(CHECK_EVERY)
                self._wanted.clear()
                if self._ended:
                    return
        except RuntimeError:  # rank 0, or the agent that keeps the store, has gone: an exchange will say so
            return

    def _end_watch(self) -> None:
        """Python ends threads that are left at its exit in the middle of the store's C++ code, which aborts."""
        self._ended = True
        self._wanted.set()
        self._watch.join(3 * CHECK_EVERY)

    def _wait(self, work: Any, what: str) -> None:
        started = time.monotonic()
        self._heard.clear()
        try:
            while True:
                try:
                    work.wait(timedelta(seconds=CHECK_EVERY))
                    return
                except RuntimeError as error:
                    if work.is_completed():  # not the time that is over, but the connection
                        self._raise_lost(what, error)
                self._waiting = True
                self._seen_alive = time.monotonic()  # waiting is no silence
                self._check_others(what, started)
        finally:
            self._waiting = False
            self._seen_alive = time.monotonic()

    def _check_others(self, what: str, started: float) -> None:
        if self._failure is not None:
            self._abandon()
            raise DistributedError(self._failure)
        for rank in range(self.world_size):
            status, heard = self._heard.get(rank, (Status(), started))
            silent = status.silent + time.monotonic() - heard
            if rank != self.rank and status.exchanges < self.messages and silent > self.timeout:
                self._abandon()
                raise DistributedError(
                    f"rank {rank} has not come to {what}: it has shown no life for {silent:.0f} s, and was last "
                    f"{status.doing}. Look at that process (py-spy dump --pid …); {TIMEOUT_VARIABLE} sets the time"
                )

    def _raise_lost(self, what: str, error: RuntimeError) -> None:
        """Say why a connection was lost: by the other's own words, which it wrote before it ended, if it could."""
        deadline, enough = time.monotonic() + 3 * CHECK_EVERY, self._looks + 2  # one may be under way
        while self._failure is None and self._looks < enough and time.monotonic() < deadline:
            self._wanted.set()
            time.sleep(0.02)
        self._abandon()
        if self._failure is not None:
            raise DistributedError(self._failure) from None
        raise DistributedError(
            f"another process has gone while rank {self.rank} was at {what}: it was killed, or its machine cannot be "
            f"reached ({error}); go on from the newest checkpoint"
        ) from error

    # -- failures

    @contextmanager
    def telling_failures(self) -> Iterator[None]:
        """Let all processes end with the exception that ends this one."""
        try:
            yield
        except BaseException as error:
            self.post_failure(error)
            raise

    def post_failure(self, error: BaseException) -> None:
        """Tell the others of an exception here, the first one of all; what came from them is not sent back."""
        if self._posted or isinstance(error, DistributedError | GeneratorExit):
            return
        self._posted = True
        text = "".join(traceback.format_exception(error))
        posting = threading.Thread(target=self._post, args=(json.dumps([self.rank, text]),), daemon=True)
        posting.start()
        posting.join(3 * CHECK_EVERY)  # a connection that is cut would block for longer
        if self.rank == 0:
            time.sleep(1.5 * CHECK_EVERY)  # the store may end with this process, and the others look once a second

    def _post(self, failure: str) -> None:
        try:
            self._store.compare_set(FAILURE, "", failure)
        except RuntimeError:  # the store has gone, and everybody knows
            return

    def _post_uncaught(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self.post_failure(error)
        self._hook(kind, error, trace)

    def _abandon(self) -> None:
        """An exchange is left unfinished: its thread would keep this process from ending."""
        atexit.register(_leave)


def _read(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _opening(data: Array) -> Array:
    """The first message of bytes: their number, and they themselves if they are few."""
    opening = np.zeros(SMALL, np.uint8)
    opening[:8] = np.frombuffer(np.int64(len(data)).tobytes(), np.uint8)
    if len(data) <= SMALL - 8:
        opening[8 : 8 + len(data)] = data
    return opening


def _size_in(opening: Array) -> int:
    return int(opening[:8].view(np.int64)[0])


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
