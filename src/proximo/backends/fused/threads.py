"""A second thread for the critic, where there is a core for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from proximo.backends.fused.structures import Role
from proximo.data import Array

SLOTS = (3, 8)  # progress of the actor, progress of the critic, abandoned; each on a cache line of its own
EpochFunction = Callable[[int, int], tuple[int, int]]  # first and last role → status, minibatch


def available_threads() -> int:
    """Two, unless this process may use only one core or PyTorch was told to use one thread."""
    if not hasattr(os, "sched_yield"):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(2, cores, torch.get_num_threads())


class CriticThread:
    """Runs the critic's half of an epoch while the caller's thread runs the actor's. The thread starts on first use."""

    def __init__(self) -> None:
        self.barrier: Array = np.zeros(SLOTS, np.int64)
        self._executor: ThreadPoolExecutor | None = None

    def run(self, epoch: EpochFunction) -> tuple[int, int]:
        """Both halves of an epoch; they decide alike, so the actor's answer is the answer."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="proximo-critic")
        self.barrier[:] = 0
        critic = self._executor.submit(epoch, Role.CRITIC, Role.CRITIC)
        try:
            result = epoch(Role.ACTOR, Role.ACTOR)
        except BaseException:  # Ctrl-C before the kernel began: nobody would meet the critic
            self.barrier[2] = 1
            raise
        finally:
            critic.result()
        return result
