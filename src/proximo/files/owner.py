"""Which process a file belongs to: its host, its number and when it started, since numbers of processes come again."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_GONE, _UNKNOWN = None, ""


@dataclass(frozen=True)
class Owner:
    """A process, by names that stay apart from those of other hosts, containers and boots."""

    place: str  # host, boot and process namespace: within one, process numbers mean the same
    pid: int
    started: str  # clock ticks after the boot; empty where the system does not tell

    @classmethod
    def this_process(cls) -> Owner:
        return cls(_place(), os.getpid(), _start_of(os.getpid()) or _UNKNOWN)

    @classmethod
    def from_name(cls, name: str) -> Owner | None:
        """The owner of :attr:`name`; None for any other text."""
        match = re.fullmatch(r"([^~]+~[^~]*~[^~]*)~(\d{1,9})~(\d*)", name)
        return None if match is None else cls(match[1], int(match[2]), match[3])

    @property
    def name(self) -> str:
        """In characters that every file system takes."""
        return f"{self.place}~{self.pid}~{self.started}"

    @property
    def host(self) -> str:
        return self.place.partition("~")[0]

    @property
    def is_here(self) -> bool:
        """Whether this process can see whether that one lives."""
        return self.place == _place()

    @property
    def is_dead(self) -> bool:
        """Whether it is certain that the process has ended; never of one elsewhere."""
        if not self.is_here:
            return False
        started = _start_of(self.pid)
        return started is _GONE or (started != self.started and _UNKNOWN not in (started, self.started))


def _start_of(pid: int) -> str | None:
    """When a process started: None for one that has ended, empty for one that lives and does not tell."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # no such process, a hidden one, or no Linux
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return _GONE
        except (PermissionError, OSError):
            return _UNKNOWN
        return _UNKNOWN
    return _GONE if state in "ZX" else numbers[18]


@cache
def _place() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", socket.gethostname())[:64] or "host"
    boot = namespace = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        namespace = re.sub(r"\D+", "", os.readlink("/proc/self/ns/pid"))
    return f"{host}~{boot}~{namespace}"
