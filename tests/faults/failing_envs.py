"""Environments that fail on demand, and a look at what a process leaves behind."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proximo.envs.testing.environments import DelayedRewardEnv

DEATHS = ("exception", "exit", "SIGSEGV", "SIGKILL")
HANGS = ("sleep", "busy", "deaf")


def fail(kind: str) -> None:
    """Fail in the way asked for; this returns only if a process can survive it."""
    if kind == "exception":
        raise ValueError("the pole broke")
    if kind == "exit":
        os._exit(7)
    if kind.startswith("SIG"):
        faulthandler.disable()  # pytest's, which a forked worker has too
        os.kill(os.getpid(), getattr(signal, kind))
    if kind == "closed pipe":
        os.closerange(3, 256)
    if kind == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while kind == "busy":
        pass
    if kind == "locked":
        ctypes.PyDLL(None).sleep(600)  # foreign code that keeps Python's lock
    time.sleep(600)


class FailingEnv(gym.Env):
    """Shows (seed of the reset, steps) and rewards 1 per step; episodes of ten steps.

    It fails ``where`` ("step", "reset" or "constructor"), in its fourth step, once for each file in ``tokens``: its
    makers in other processes see that a file is gone.
    """

    def __init__(self, kind="exception", tokens=None, where="step"):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.kind, self.tokens, self.where = kind, tokens, where
        self.seed, self.steps = -1, 0
        self._maybe_fail("constructor")

    def _maybe_fail(self, where):
        if self.tokens is None or self.where != where:
            return
        for token in sorted(Path(self.tokens).iterdir()):
            token.unlink()
            fail(self.kind)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.steps = -1 if seed is None else seed, 0
        self._maybe_fail("reset")
        return np.array([self.seed, 0.0]), {"seed": seed}

    def step(self, action):
        if self.steps == 3:
            self._maybe_fail("step")
        self.steps += 1
        return np.array([self.seed, float(self.steps)]), 1.0, False, self.steps >= 10, {}

    def action_masks(self):
        return np.array([True, self.steps % 2 == 0])


class CrashingProbe(DelayedRewardEnv):
    """The probe of the discount, which crashes in one step of a hundred, sometimes with its whole worker."""

    def step(self, action):
        draw = self.np_random.random()
        if draw < 0.01:
            fail("exception" if draw < 0.009 else "exit")
        return super().step(action)


def make_tokens(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / str(number)).touch()
    return folder


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants() -> list[int]:
    """Ids of the running processes that this one has started, itself or through others, but for Python's helpers."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and running(int(entry.name)):
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, to_visit = [], [os.getpid()]
    while to_visit:
        more = children.get(to_visit.pop(), [])
        found += more
        to_visit += more
    helpers = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}
    return [pid for pid in found if pid not in helpers]


def assert_nothing_left(before: list[int]) -> None:
    """No processes since ``before``, no shared memory with a name."""
    gc.collect()
    deadline = time.monotonic() + 10
    while (left := set(descendants()) - set(before)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left
    assert not list(Path("/dev/shm").glob(f"proximo-{os.getpid()}-*"))
