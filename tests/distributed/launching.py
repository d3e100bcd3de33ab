"""Processes that train together, started by a test and watched: none may outlive its time."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables_of(rank: int, processes: int, port: int) -> dict[str, str]:
    """What torchrun would tell a process."""
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "OMP_NUM_THREADS": "1"}


@cache
def nursery() -> subprocess.Popen[str]:
    """The process that forks others; started once, ended with the tests."""
    command = [sys.executable, str(HERE / "nursery.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(started.kill)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


class Launched:
    """Processes under way; leaving the block ends those that are left."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], processes: int, folder: Path, **variables: str
    ) -> None:
        port, given = free_port(), folder / "arguments.pickle"
        self.result = folder / "result-"
        self.printed = [folder / f"output-{rank}.txt" for rank in range(processes)]
        given.write_bytes(pickle.dumps(arguments))
        request = {
            "module": function.__module__,
            "name": function.__name__,
            "arguments": str(given),
            "result": str(self.result),
            "printed": [str(path) for path in self.printed],
            "variables": [variables_of(rank, processes, port) | variables for rank in range(processes)],
        }
        forking = nursery()
        assert forking.stdin is not None
        assert forking.stdout is not None
        forking.stdin.write(json.dumps(request) + "\n")
        forking.stdin.flush()
        self.children: list[int] = json.loads(forking.stdout.readline())

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        for rank, child in enumerate(self.children):
            if self.is_running(rank):
                os.kill(child, signal.SIGKILL)

    def is_running(self, rank: int) -> bool:
        return Path(f"/proc/{self.children[rank]}").exists()

    def code(self, rank: int) -> int | None:
        """The exit code of a process that has ended; None of one that a signal ended."""
        path = Path(f"{self.result}{rank}.code")
        return int(path.read_text()) if path.exists() else None

    def wait(self, seconds: float, ranks: list[int] | None = None) -> list[str]:
        """What the processes printed, once these, or all, have ended; too late is an error."""
        watched = range(len(self.children)) if ranks is None else ranks
        deadline = time.monotonic() + seconds
        while any(map(self.is_running, watched)) and time.monotonic() < deadline:
            time.sleep(0.02)
        texts = [path.read_text() if path.exists() else "" for path in self.printed]
        if late := [rank for rank in watched if self.is_running(rank)]:
            raise AssertionError(f"ranks {late} were still running after {seconds} s:\n" + "\n---\n".join(texts))
        return texts


def launch(
    function: Callable[..., Any],
    *arguments: Any,
    processes: int = 2,
    folder: Path,
    seconds: float = 120.0,
    **variables: str,
) -> list[Any]:
    """Run ``function`` of a module that the nursery knows in several processes; what it returned in each."""
    with Launched(function, arguments, processes, folder, **variables) as launched:
        texts = launched.wait(seconds)
        codes = [launched.code(rank) for rank in range(processes)]
        assert codes == [0] * processes, "\n---\n".join(texts)
        return [pickle.loads(Path(f"{launched.result}{rank}").read_bytes()) for rank in range(processes)]
