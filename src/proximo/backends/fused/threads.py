"""A second thread for the critic, where there is a core for it and it helps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from proximo.backends.fused.structures import Role
from proximo.backends.threads import torch_threads
from proximo.cores import usable_cores
from proximo.data import Array

SLOTS = (3, 8)  # progress of the actor, progress of the critic, abandoned; each on a cache line of its own
PROBE_EVERY = 32  # runs
PATIENCE = 1.1  # a way that once took long is remembered as that much slower: one interruption proves nothing
RolesFunction = Callable[[int, int], tuple[int, int]]  # first and last role → status, minibatches


def available_threads() -> int:
    """Two, unless this process may use only one core or PyTorch was told to use one thread."""
    if not hasattr(os, "sched_yield"):
        return 1
    return min(2, usable_cores(), torch_threads.most)


class RoleThreads:
    """Runs an update's two roles in one thread or in two; the result is the same to the bit.

    Two are up to twice as fast, but slower than one while other programs keep the cores busy. So, unless a number is
    asked for, both ways are timed now and then and the faster one is used. The second thread starts on first use.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads not in (None, 1, 2):
            raise ValueError(f"threads is {threads}; an update has two networks: use 1, 2, or None to choose by speed")
        self.choices = [threads] if threads else list(range(1, available_threads() + 1))
        self.barrier: Array = np.zeros(SLOTS, np.int64)
        self._seconds: dict[int, float] = {}  # per minibatch, lately
        self._runs = 0
        self._executor: ThreadPoolExecutor | None = None
        self._process = 0  # that the executor's thread lives in

    def run(self, work: RolesFunction) -> tuple[int, int]:
        """Both roles of an update; returns the status and how many minibatches were applied."""
        threads = self._choose()
        start = time.perf_counter()
        status, count = self._run_two(work) if threads == 2 else work(Role.ACTOR, Role.CRITIC)
        self._remember(threads, (time.perf_counter() - start) / max(count, 1))
        return status, count

    def _remember(self, threads: int, seconds: float) -> None:
        self._seconds[threads] = min(seconds, PATIENCE * self._seconds.get(threads, seconds))

    def _choose(self) -> int:
        untried = [threads for threads in self.choices if threads not in self._seconds]
        if untried:
            return untried[0]
        self._runs += 1
        by_speed = sorted(self.choices, key=self._seconds.__getitem__)
        return by_speed[-1] if self._runs % PROBE_EVERY == 0 else by_speed[0]

    def _run_two(self, work: RolesFunction) -> tuple[int, int]:
        if self._executor is None or self._process != os.getpid():  # a forked process has no threads but one
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="proximo-critic")
            self._process = os.getpid()
        self.barrier[:] = 0
        critic = self._executor.submit(work, Role.CRITIC, Role.CRITIC)
        try:
            return work(Role.ACTOR, Role.ACTOR)  # the two decide alike, so either's answer is the answer
        except BaseException:  # Ctrl-C before the actor began: nobody would wait for the critic
            self.barrier[2] = 1
            raise
        finally:
            critic.result()
