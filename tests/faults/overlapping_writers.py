"""Trainings that want the same folder at the same time, each in a process of its own.

``python -m faults.overlapping_writers`` imports everything once, then forks a child for every line
``{"case": …, "folder": …, "take_over": …}`` and prints its process id; it waits for none of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from faults.trainings import CASES, train, warm_up
from proximo.training.run_lock import RunLock, RunLockedError

PATIENCE = 300.0


def write_down(folder: Path, what: str) -> None:
    """Append a line to the record of who wrote when; one write, so that lines do not mix."""
    descriptor = os.open(folder / "record.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{what} {os.getpid()}\n".encode())
    os.close(descriptor)


def train_alone(case: str, folder: Path, take_over: bool) -> dict[str, Any]:
    """Train with the folder locked, to the end of the run; what became of it."""
    warnings.simplefilter("ignore")
    try:
        with RunLock(folder, take_over) as lock:
            write_down(folder, "enter")
            try:
                train(CASES[case], folder, lock=lock)
            finally:
                write_down(folder, "leave")
    except RunLockedError as error:
        return {"outcome": "lost" if "taken over" in str(error) else "refused", "message": str(error)}
    return {"outcome": "finished"}


class Writers:
    """Starts trainings, kills them, and waits for what becomes of them."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.overlapping_writers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        return self.process.stdout.readline().strip()  # type: ignore[union-attr]

    def start(self, case: str, folder: Path, take_over: bool = False) -> int:
        request = {"case": case, "folder": str(folder), "take_over": take_over}
        self.process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return int(self._line())

    def outcome(self, pid: int, folder: Path) -> dict[str, Any]:
        """What became of a training that nobody killed."""
        path, deadline = folder / f"outcome-{pid}.json", time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < deadline, f"training {pid} does not end"
            time.sleep(0.005)
        found: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        return found

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait(timeout=30)


def _serve() -> None:
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
            print(child, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        folder = Path(request["folder"])
        try:
            found = train_alone(request["case"], folder, request["take_over"])
        except BaseException as error:
            found = {"outcome": "failed", "message": repr(error)}
        half = folder / f"outcome-{os.getpid()}.half"
        half.write_text(json.dumps(found))
        half.rename(half.with_suffix(".json"))
        os._exit(0)


if __name__ == "__main__":
    _serve()
