"""Trainings that run as processes of their own, some at a time, with one live table: of seeds, and of a tuning."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import RenderableType
from rich.live import Live
from rich.table import Table

from proximo.cli.console import is_debugging, output
from proximo.cli.runs import Run
from proximo.cores import shared_out
from proximo.training.progress import clock_time
from proximo.training.signals import StopOnSignal, handle_signals

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal
FAILED = 2


@dataclass
class Training:
    """One training: its process, and what is known of it."""

    name: str
    seed: int
    steps_planned: int
    log: Path
    state: str = "waiting"
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None
    run: Run | None = None
    latest: dict[str, Any] = field(default_factory=dict)  # the newest value of each metric
    _offset: int = 0
    _log_start: int = 0  # of what this process printed: the log has earlier ones' lines too

    @property
    def steps(self) -> int:
        return int(self.latest.get("time/total_timesteps", 0))

    @property
    def speed(self) -> float | None:
        return self.latest.get("time/fps") if self.state == "training" else None

    @property
    def seconds_left(self) -> float | None:
        return (
            (self.steps_planned - self.steps) / self.speed if self.speed and self.steps < self.steps_planned else None
        )

    @property
    def mean_return(self) -> float | None:
        return self.latest.get("rollout/ep_rew_mean")

    def start(self, words: Sequence[str], jobs: int) -> None:
        """Start ``proximo train`` with these words, as one of so many at a time; what it prints goes to the log."""
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proximo", "train", *words, *(["--debug"] if is_debugging() else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **shared_out(jobs)},
                start_new_session=True,  # Ctrl-C is ours to pass on
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        self.state = "starting"

    def has_ended(self) -> bool:
        if self.process is not None:
            self.code = self.process.poll()
        return self.process is not None and self.code is not None

    def look(self, run: Run | None) -> None:
        """Read what the training has written since the last look."""
        self.run = run or self.run
        self._read_progress()
        if self.state == "starting" and self.latest:
            self.state = "training"
        if self.state == "training" and self.steps >= self.steps_planned:
            self.state = "evaluating"

    def _read_progress(self) -> None:
        if self.run is None or not self.run.folder.progress_jsonl.exists():
            return
        with self.run.folder.progress_jsonl.open("rb") as stream:
            if stream.seek(0, os.SEEK_END) < self._offset:
                self._offset = 0  # a resumed training has cut it back to its checkpoint
            stream.seek(self._offset)
            whole, _, _ = stream.read().rpartition(b"\n")
        if whole:
            self._offset += len(whole) + 1
            for line in whole.splitlines():
                self.latest.update(json.loads(line))

    def reason(self) -> str:
        """Why it failed: the error that it told, else the signal that ended it, else what it said last."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_start)
            text = stream.read().decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if re.match(r"error: |[\w.]+(Error|Exception): ", line)]
        last = (wrong or lines or ["it printed nothing"])[-1]
        if wrong or self.code is None or self.code >= 0:
            return last
        short = ", as the system does where memory is short" if -self.code == signal.SIGKILL else ""
        said = f"it had said last: {lines[-1]}" if lines else "it had printed nothing"
        return f"{signal.Signals(-self.code).name} ended it{short}; {said}"


def end_with_parent() -> None:
    """In a new process on Linux: be told to end (SIGTERM) when the one that started it is gone, however it went."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


class TrainingSession:
    """Trainings, ``jobs`` of them at a time. A subclass says what is trained, in which order, and what comes of it."""

    heading = "training"  # what the trainings differ in

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.trainings: list[Training] = []
        self.signal_number: int | None = None

    @abstractmethod
    def _advance(self) -> bool:
        """Start what can start, see what has ended; False when nothing is left to wait for."""

    def _status(self) -> RenderableType:
        """What the live display shows."""
        return progress_table(self.trainings, self.heading)

    def _run(self) -> None:
        """Train until nothing is left, or until a signal has ended all."""
        with self._signals(), self._display() as show:
            while self._advance():
                show()
                time.sleep(SECONDS_BETWEEN_LOOKS)
            show()

    def _running(self) -> int:
        return sum(training.process is not None for training in self.trainings)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        handlers = dict.fromkeys(StopOnSignal.SIGNALS, self._receive)
        previous = handle_signals(handlers | dict.fromkeys(StopOnSignal.SAVING_SIGNALS, self._pass_on))
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            for training in self.trainings:
                if training.process is not None:  # an error of ours
                    training.process.terminate()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Pass it on: the trainings save checkpoints and end; after a second one they end at once."""
        self.signal_number = number
        self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for training in self.trainings:
            if training.process is not None:
                training.process.send_signal(number)

    @contextmanager
    def _display(self) -> Iterator[Callable[[], None]]:
        """Gives a function that shows the state of now: a live table on a terminal, elsewhere lines now and then."""
        if not output().is_terminal or output().is_dumb_terminal:
            yield Lines(self.trainings, self.heading)
            return
        with Live(console=output(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
            yield lambda: live.update(self._status(), refresh=True)


COLOURS = {"failed": "red", "done": "green", "paused": "yellow", "stopped": "yellow", "waiting": "dim", "pruned": "dim"}


def progress_table(trainings: Sequence[Training], heading: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(heading, justify="right")
    table.add_column("", min_width=len("evaluating"))  # so that nothing moves when a state changes
    for name in ("steps", "", "steps/s", "return", "left"):
        table.add_column(name, justify="right", min_width=5)
    for training in trainings:
        percent = f"{min(100 * training.steps // training.steps_planned, 100)} %"
        colour = COLOURS.get(training.state, "cyan")
        table.add_row(
            training.name,
            f"[{colour}]{training.state}[/]",
            f"{training.steps:,}",
            percent,
            "" if training.speed is None else f"{training.speed:,.0f}",
            "" if training.mean_return is None else f"{training.mean_return:.1f}",
            "" if training.seconds_left is None else clock_time(training.seconds_left),
        )
    return table


class Lines:
    """Tells in plain lines what has changed, and every few seconds how far the trainings are."""

    def __init__(self, trainings: Sequence[Training], heading: str) -> None:
        self.trainings = trainings
        self.heading = heading
        self.states: dict[str, str] = {}
        self.next_time = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self) -> None:
        now = time.monotonic()
        is_time = now >= self.next_time
        if is_time:
            self.next_time = now + SECONDS_BETWEEN_LINES
        for training in self.trainings:
            if training.state != self.states.get(training.name, "waiting"):
                self.states[training.name] = training.state
                output().print(f"{self.heading} {training.name}: {training.state}", markup=False)
            if is_time and training.state == "training":
                output().print(f"{self.heading} {training.name}: {describe(training)}", markup=False)


def describe(training: Training) -> str:
    parts = [f"{training.steps:,} of {training.steps_planned:,} steps"]
    if training.speed is not None:
        parts.append(f"{training.speed:,.0f} steps/s")
    if training.mean_return is not None:
        parts.append(f"return {training.mean_return:.1f}")
    if training.seconds_left is not None:
        parts.append(f"{clock_time(training.seconds_left)} left")
    return "  ".join(parts)
