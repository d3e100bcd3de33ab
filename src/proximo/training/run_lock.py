"""One writer at a time: the lock of a run's folder, on any file system that can create a file exclusively.

The lock is a file ``writer.N.lock`` that says who holds it; the highest number counts. Whoever takes over makes the
next number, which only one of several can, so that nobody ever removes the lock of a living holder. Holders on other
hosts, whose processes cannot be seen from here, are known by their heartbeat: the time of the file, compared by the
clock of the file system.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import secrets
import stat
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from proximo.errors import ProximoError
from proximo.files.atomic import remove_leftovers
from proximo.files.budgets import Budgets
from proximo.files.owner import Owner
from proximo.files.plain_text import parse_json
from proximo.training.callback_base import BaseCallback

SECONDS_BETWEEN_BEATS = 20.0
SECONDS_UNTIL_DEAD = 300.0
"""A holder that cannot be seen is taken for dead after this long without a heartbeat."""
_SECONDS_BETWEEN_CHECKS = 1.0
_LONGEST = 4096  # bytes of a lock file
_NAME = re.compile(r"writer\.(\d{1,9})\.lock")


class RunLockedError(ProximoError, RuntimeError):
    """Another process writes to the run's folder, or has taken it over."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as its file says.

    Arguments:
        path: The lock's file.
        number: Its number; the highest holds.
        since: When it was taken.
    """

    path: Path
    number: int
    owner: Owner | None  # unknown while the file is being written
    since: str

    def __str__(self) -> str:
        if self.owner is None:
            return "a process that has not told its name yet"
        return f"process {self.owner.pid} on {self.owner.host}, since {self.since}"

    def is_dead(self) -> bool:
        """Whether its process has ended."""
        if self.owner is not None and self.owner.is_here:
            return self.owner.is_dead
        return _seconds_since_beat(self.path) > SECONDS_UNTIL_DEAD


class RunLock:
    """The right to write to a folder: taken on entering, given back on leaving::

        with RunLock("runs/mine") as lock:
            model.learn(1_000_000, callback=[lock.callback(), checkpoints])

    Where another process holds it, ``RunLockedError`` says which. One that has died is replaced; with ``take_over``
    a living one too: it notices before its next iteration, ends with an error, and is waited for.
    """

    def __init__(self, folder: str | os.PathLike[str], take_over: bool = False) -> None:
        """Arguments:
        folder: The run folder.
        take_over: Whether a living holder is replaced too.
        """
        self.folder = Path(folder)
        self.take_over = take_over
        self._path: Path | None = None
        self._number = 0
        self._ended = threading.Event()

    def acquire(self) -> Self:
        """Take the lock, or raise with who holds it."""
        while True:
            holders = _holders(self.folder)
            latest = holders[-1] if holders else None
            if latest is not None and not self.take_over and not latest.is_dead():
                raise RunLockedError(
                    f"{self.folder} is being written by {latest}: wait for it to end, or stop it; "
                    "--take-over (take_over=True) makes it stop and goes on in its place"
                )
            self._number = 1 if latest is None else latest.number + 1
            self._path = _created(self.folder / f"writer.{self._number}.lock")
            if self._path is not None and _holders(self.folder)[-1].number == self._number:
                break
            self._remove_own()  # somebody was quicker: look who
        threading.Thread(target=self._beat, args=(self._path,), daemon=True).start()
        try:
            for earlier in holders:
                self._await_end(earlier)
                earlier.path.unlink(missing_ok=True)
                remove_leftovers(self.folder, earlier.owner)
                remove_leftovers(self.folder / "checkpoints", earlier.owner)
        except BaseException:
            self.release()
            raise
        return self

    def check(self) -> None:
        """``RunLockedError`` if another process has taken over: nothing may be written from here on."""
        if self._path is None:
            raise RunLockedError(f"the lock of {self.folder} is not held: acquire it, or use it in a with statement")
        holders = _holders(self.folder)
        if not holders or holders[-1].number != self._number:
            by = f"taken over by {holders[-1]}" if holders else f"lost: {self._path} is gone"
            raise RunLockedError(f"the run {self.folder} was {by}; this process stops and writes nothing more")

    def release(self) -> None:
        """Give it back."""
        self._ended.set()
        self._remove_own()

    def callback(self) -> LockCheck:
        """Ends a training that has lost the lock, before anything more is saved: give it before the checkpoints."""
        return LockCheck(self)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _await_end(self, holder: Holder) -> None:
        """Wait until an earlier holder has given up, which it does between two iterations, or is dead."""
        told = False
        while holder.path.exists() and not holder.is_dead():
            self.check()
            if not told:
                warnings.warn(f"taking over from {holder}: waiting for it to stop", stacklevel=4)
                told = True
            time.sleep(0.05)

    def _beat(self, path: Path) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_BEATS):
            with contextlib.suppress(OSError):  # a file server that is away for a while
                os.utime(path)

    def _remove_own(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            path.unlink(missing_ok=True)


class LockCheck(BaseCallback):
    """Ends a training whose folder another process has taken over."""

    def __init__(self, lock: RunLock) -> None:
        """Arguments:
        lock: The lock that is held.
        """
        super().__init__()
        self.lock = lock
        self._next_time = 0.0

    def _between_iterations(self) -> bool:
        now = time.monotonic()
        if now >= self._next_time:  # listing a folder of a file server costs more than a short iteration
            self._next_time = now + _SECONDS_BETWEEN_CHECKS
            self.lock.check()
        return True


def living_holder(folder: Path) -> Holder | None:
    """Who writes to a folder now; None where nobody does, or who did has died."""
    holders = _holders(folder)
    return holders[-1] if holders and not holders[-1].is_dead() else None


def _holders(folder: Path) -> list[Holder]:
    """The locks in a folder, the one that counts last."""
    try:
        names = [(int(match[1]), match[0]) for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    except FileNotFoundError:
        return []
    holders = []
    for number, name in sorted(names):
        with contextlib.suppress(FileNotFoundError):  # given back while we look
            holders.append(_read(folder / name, number))
    return holders


def _read(path: Path, number: int) -> Holder:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep its reader waiting
        return Holder(path, number, None, "")
    with path.open("rb") as stream:
        data = stream.read(_LONGEST + 1)
    try:
        content: Any = parse_json(data, Budgets(json_bytes=_LONGEST), str(path))
        return Holder(path, number, Owner.from_name(content["owner"]), str(content["since"])[:40])
    except (ValueError, KeyError, TypeError):
        return Holder(path, number, None, "")


def _created(path: Path) -> Path | None:
    """The lock file with this process's name in it; None if it is there already."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump({"owner": Owner.this_process().name, "since": since}, stream)
    return path


def _seconds_since_beat(path: Path) -> float:
    """By the clock of the file system, which may be another machine's."""
    probe = path.with_name(f".proximo-{Owner.this_process().name}~{secrets.token_hex(8)}.tmp")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")  # it was given back
    finally:
        probe.unlink(missing_ok=True)
