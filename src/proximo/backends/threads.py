"""How many threads PyTorch computes with during a training: one for small networks, all for large ones.

A second thread gains nothing where a call takes some microseconds, but it waits awake for the next one: two trainings
beside each other then take each other's cores, and run at a quarter of their speed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from proximo.cores import bound_cores, physical_cores, threads_are_asked_for, usable_cores

MUCH_WORK = 8e6  # multiplications of one call, from which two threads take two thirds of one's time, or less
POSITIONS = 64  # of an image where a convolution's weights are used, roughly; all other weights are used once


def multiplications_per_row(network: nn.Module) -> float:
    """Roughly the multiplications of a forward pass for one observation: the number of parameters.

    >>> multiplications_per_row(nn.Linear(10, 10)), multiplications_per_row(nn.Conv2d(1, 2, 5, bias=False))
    (110.0, 3200.0)
    """
    count = sum(parameter.numel() for parameter in network.parameters())
    in_images = sum(layer.weight.numel() for layer in network.modules() if isinstance(layer, _ConvNd))
    return float(count + (POSITIONS - 1) * in_images)


def default_numbers() -> set[int]:
    """What PyTorch's number of threads may be where nobody has set it; it may be older than a binding to cores."""
    return {os.cpu_count() or 1, bound_cores(), physical_cores(), usable_cores()}


class TorchThreads:
    """PyTorch's number of threads, which belongs to the whole process: changed by trainings, and given back.

    A number that the user chose is left alone: ``OMP_NUM_THREADS``, or a ``torch.set_num_threads`` to another number
    than PyTorch's own, before the training or within it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trainings = 0
        self._before = 0  # the first of them
        self._set: int | None = None  # by this object, last
        self._of_user = False

    @property
    def most(self) -> int:
        """How many PyTorch may use, whatever it is set to for the moment."""
        now = torch.get_num_threads()
        return self._before if self._set is not None and now == self._set else now

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """A training: whatever :meth:`use` sets within it is as before after it."""
        with self._lock:
            if self._trainings == 0:
                self._before, self._set = torch.get_num_threads(), None
                self._of_user = threads_are_asked_for() or self._before not in default_numbers()
            self._trainings += 1
        try:
            yield
        finally:
            with self._lock:
                self._trainings -= 1
                if self._trainings == 0 and self._set is not None:
                    if torch.get_num_threads() == self._set:
                        torch.set_num_threads(self._before)
                    self._set = None

    def use(self, multiplications: float, leave_cores: bool = False) -> None:
        """Choose the number for calls of that much work; one where worker processes need the cores meanwhile."""
        if self._trainings == 0 or self._of_user:
            return
        now = torch.get_num_threads()
        if self._set is not None and now != self._set:  # somebody else has set it since
            self._of_user = True
            return
        number = 1 if leave_cores or multiplications < MUCH_WORK else min(self._before, usable_cores())
        if number != now:
            torch.set_num_threads(number)
        self._set = number


torch_threads = TorchThreads()
