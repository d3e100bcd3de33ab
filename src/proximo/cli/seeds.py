"""``proximo train --seeds``: several trainings as several processes, with one live table."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from proximo.analysis.evaluation import Evaluation
from proximo.cli.algorithms import algorithm_title
from proximo.cli.console import is_debugging, output, print_table, quiet_libraries, shown_path
from proximo.cli.group import Group
from proximo.cli.playing import comparison_table
from proximo.cli.runs import Run, RunConfig
from proximo.cli.session import checkpoints_of, prepared
from proximo.cores import shared_out, usable_cores
from proximo.training.checkpoints import CheckpointFolder
from proximo.training.progress import clock_time
from proximo.training.signals import StopOnSignal, handle_signals

if TYPE_CHECKING:
    from proximo.cli.train import Train

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal
FAILED = 2


def train_group(arguments: Train, config: RunConfig, words: Sequence[str]) -> int:
    """Train with every seed into a new group folder; returns the exit code."""
    seeds = arguments.seeds or ()
    jobs = min(arguments.jobs or usable_cores(), len(seeds))
    with quiet_libraries(), prepared(arguments, config) as (env, _):
        checkpoints_of(arguments, env)  # what cannot be done is said once, and before a folder is made
    group = Group.create(arguments.runs_dir, f"{config.env}-{config.algo}", seeds, jobs, words)
    return GroupSession(group, config, jobs).finish()


def resume_group(group: Group, jobs: int | None) -> int:
    """Go on with each training of a group where it was; returns the exit code."""
    from proximo.cli.train import parse_arguments, run_config

    runs = group.runs()
    config = next(iter(runs.values())).config if runs else run_config(parse_arguments(group.words))
    return GroupSession(group, config, jobs or group.jobs).finish()


@dataclass
class Member:
    """The training with one seed: its process, and what is known of it."""

    seed: int
    steps_planned: int
    log: Path
    state: str = "waiting"
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None
    run: Run | None = None
    latest: dict[str, Any] = field(default_factory=dict)  # the newest value of each metric
    _offset: int = 0

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

    def look(self, run: Run | None) -> None:
        """Read what the training has written since the last look."""
        self.run = run or self.run
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

    def last_line(self) -> str:
        """What the training said last: when it failed, why."""
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        wrong = [line for line in lines if re.match(r"error: |[\w.]+(Error|Exception): ", line)]
        return (wrong or lines or ["it printed nothing"])[-1]


class GroupSession:
    """The trainings of a group, some of them at a time."""

    def __init__(self, group: Group, config: RunConfig, jobs: int) -> None:
        self.group = group
        self.config = config
        self.jobs = jobs
        self.members = [Member(seed, config.preset.n_timesteps, group.log(seed)) for seed in group.seeds]
        self.signal_number: int | None = None

    def finish(self) -> int:
        self._take_up_what_is_there()
        title = f"[bold]{algorithm_title(self.config.algo)} on {escape(self.config.env)}[/]"
        output().print(
            f"{title}: {len(self.members)} seeds, {self.jobs} at a time, {escape(shown_path(self.group.path))}"
        )
        with self._signals(), self._display() as show:
            while self._advance():
                show()
                time.sleep(SECONDS_BETWEEN_LOOKS)
            show()
        self._report()
        if self.signal_number is not None:
            return 128 + self.signal_number
        return max(member.code or 0 for member in self.members)

    def _take_up_what_is_there(self) -> None:
        """In a resumed group: trainings that are over stay so."""
        for seed, run in self.group.runs().items():
            for member in self.members:
                if member.seed == seed:
                    member.look(run)
                    if run.folder.read_result() is not None:
                        member.state, member.code = "done", 0

    def _advance(self) -> bool:
        """Start what can start, see what has ended; False when nothing is left to wait for."""
        running = [member for member in self.members if member.process is not None]
        runs = self.group.runs() if any(member.run is None for member in running) else {}
        for member in running:
            ended = member.process is not None and member.process.poll() is not None
            member.look(runs.get(member.seed))
            if member.state == "starting" and member.latest:
                member.state = "training"
            if member.state == "training" and member.steps >= member.steps_planned:
                member.state = "evaluating"
            if ended:
                self._end(member)
        for member in self.members:
            if self.signal_number is None and member.state == "waiting" and self._running() < self.jobs:
                self._start(member)
        return self._running() > 0

    def _running(self) -> int:
        return sum(member.process is not None for member in self.members)

    def _start(self, member: Member) -> None:
        words = [*self.group.words, "--seed", str(member.seed), "--runs-dir", str(self.group.path)]
        if member.run is not None:
            if CheckpointFolder(member.run.folder.checkpoints).all():
                words = ["--resume", str(member.run.folder.path)]
            else:  # it has nothing to go on from
                self.group.set_aside(member.run)
                member.run, member.latest = None, {}
        with member.log.open("ab") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", "proximo", "train", *words, *(["--debug"] if is_debugging() else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **shared_out(self.jobs)},
                start_new_session=True,  # Ctrl-C is ours to pass on
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        member.state = "starting"

    def _end(self, member: Member) -> None:
        code = FAILED if member.process is None else member.process.returncode
        member.process = None
        if member.run is not None and member.run.folder.read_result() is not None:
            member.state, member.code = "done", code  # 1 where the return of --until was not reached
        elif self.signal_number is not None:
            member.state, member.code = "stopped", code
        else:
            member.state, member.code = "failed", FAILED

    # ------------------------------------------------------------------------------------------------------ signals

    @contextmanager
    def _signals(self) -> Iterator[None]:
        handlers = dict.fromkeys(StopOnSignal.SIGNALS, self._receive)
        previous = handle_signals(handlers | dict.fromkeys(StopOnSignal.SAVING_SIGNALS, self._pass_on))
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            for member in self.members:
                if member.process is not None:  # an error of ours
                    member.process.terminate()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Pass it on: the trainings save checkpoints and end; after a second one they end at once."""
        self.signal_number = number
        self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for member in self.members:
            if member.process is not None:
                member.process.send_signal(number)

    # ------------------------------------------------------------------------------------------------------ display

    @contextmanager
    def _display(self) -> Iterator[Any]:
        """Gives a function that shows the state of now: a live table on a terminal, elsewhere lines now and then."""
        if not output().is_terminal or output().is_dumb_terminal:
            yield Lines(self.members)
            return
        with Live(console=output(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
            yield lambda: live.update(progress_table(self.members), refresh=True)

    def _report(self) -> None:
        runs, evaluations = [], []
        for member in self.members:
            if member.state == "failed":
                output().print(f"[red]seed {member.seed} failed:[/] {escape(member.last_line())}", soft_wrap=True)
                output().print(f"  all that it printed: {escape(shown_path(member.log))}", soft_wrap=True)
            result = None if member.run is None else member.run.folder.read_result()
            if member.run is not None and result is not None and result["evaluation"] is not None:
                runs.append(member.run)
                evaluations.append(Evaluation(**result["evaluation"]))
        if evaluations:
            print_table(comparison_table(runs, evaluations))
        if any(member.state != "done" for member in self.members):
            path = shown_path(self.group.path)
            output().print(f"go on with: proximo train --resume {path}", markup=False, soft_wrap=True)


def end_with_parent() -> None:
    """In a new process on Linux: be told to end (SIGTERM) when the one that started it is gone, however it went."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


COLOURS = {"failed": "red", "done": "green", "stopped": "yellow", "waiting": "dim"}


def progress_table(members: Sequence[Member]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("seed", justify="right")
    table.add_column("", min_width=len("evaluating"))  # so that nothing moves when a state changes
    for name in ("steps", "", "steps/s", "return", "left"):
        table.add_column(name, justify="right", min_width=5)
    for member in members:
        percent = f"{min(100 * member.steps // member.steps_planned, 100)} %"
        colour = COLOURS.get(member.state, "cyan")
        table.add_row(
            str(member.seed),
            f"[{colour}]{member.state}[/]",
            f"{member.steps:,}",
            percent,
            "" if member.speed is None else f"{member.speed:,.0f}",
            "" if member.mean_return is None else f"{member.mean_return:.1f}",
            "" if member.seconds_left is None else clock_time(member.seconds_left),
        )
    return table


class Lines:
    """Tells in plain lines what has changed, and every few seconds how far the trainings are."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.states = {member.seed: "waiting" for member in members}
        self.next_time = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self) -> None:
        now = time.monotonic()
        is_time = now >= self.next_time
        if is_time:
            self.next_time = now + SECONDS_BETWEEN_LINES
        for member in self.members:
            if member.state != self.states[member.seed]:
                self.states[member.seed] = member.state
                output().print(f"seed {member.seed}: {member.state}", markup=False)
            if is_time and member.state == "training":
                output().print(f"seed {member.seed}: {describe(member)}", markup=False)


def describe(member: Member) -> str:
    parts = [f"{member.steps:,} of {member.steps_planned:,} steps"]
    if member.speed is not None:
        parts.append(f"{member.speed:,.0f} steps/s")
    if member.mean_return is not None:
        parts.append(f"return {member.mean_return:.1f}")
    if member.seconds_left is not None:
        parts.append(f"{clock_time(member.seconds_left)} left")
    return "  ".join(parts)
