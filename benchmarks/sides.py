"""One library at a work, in a process of its own: neither side changes the other's allocator, threads or caches."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch

from benchmarks.works import Work, prepare

_do_the_work: Callable[[], float]


class Side:
    """Does its work once per turn."""

    def __init__(self, work: Work, ours: bool, workers: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = ProcessPoolExecutor(1, context, _make_ready, (work, ours, workers))

    def turn(self, threads: int) -> float:
        """Samples per second with so many threads of torch."""
        return self._process.submit(_take_turn, threads).result()

    def close(self) -> None:
        self._process.shutdown()


def _make_ready(work: Work, ours: bool, workers: bool) -> None:
    global _do_the_work
    warnings.filterwarnings("ignore", category=UserWarning)
    _do_the_work = prepare(work, ours, workers)


def _take_turn(threads: int) -> float:
    torch.set_num_threads(threads)
    return _do_the_work()
