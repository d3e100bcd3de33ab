"""SIGINT and SIGTERM: a checkpoint, the right exit code, nothing left running; a second one ends at once."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from proximo import PPO
from proximo.training.checkpoints import CheckpointFolder
from proximo.training.signals import StopOnSignal, keep_interrupts

from .conftest import Tally

SCRIPT = Path(__file__).with_name("signalled_training.py")
PATIENCE = 300.0  # seconds until a test gives up on a process: machines may be busy
KINDS = list(itertools.product((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), (32, 160), ("inside", "workers")))


def start(folder: Path, n_steps: int, place: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(folder), str(n_steps), place, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=listen_to_signals,
        start_new_session=True,  # a group of processes of its own
    )


def listen_to_signals() -> None:
    """What ignores signals hands that on to its children, and the tests may run under nohup or in the background."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output.splitlines()[-1]


@cache
def uninterrupted(n_steps: int, root: str) -> str:
    code, line = finish(start(Path(root) / f"whole-{n_steps}", n_steps, "inside"))
    assert code == 0
    return line


def children_of(process: subprocess.Popen[str]) -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def is_running(identifier: int) -> bool:
    status = Path(f"/proc/{identifier}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(identifiers: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(is_running(identifier) for identifier in identifiers):
        assert time.monotonic() < deadline, "worker processes outlive their parent"
        time.sleep(0.05)


def check_signal(number: signal.Signals, n_steps: int, place: str, delay: float, folder: Path, root: Path) -> None:
    """End a training after ``delay`` seconds, and let it go on: the weights are those of the uninterrupted one."""
    process = start(folder, n_steps, place)
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    time.sleep(delay)
    workers = children_of(process)
    process.send_signal(number)
    code, line = finish(process)
    assert code == 128 + number
    wait_until_gone(workers)
    newest = CheckpointFolder(folder).newest()
    assert PPO.load(newest, device="cpu").num_timesteps <= int(line.split()[0])
    code, line = finish(start(folder, n_steps, place, "resume"))
    assert code == 0
    assert line == uninterrupted(n_steps, str(root))


@pytest.mark.parametrize(("number", "n_steps", "place"), KINDS[:1] + KINDS[-1:])
def test_a_signal_saves_a_checkpoint_that_goes_on_exactly(
    number: signal.Signals, n_steps: int, place: str, tmp_path: Path, tally: Tally
) -> None:
    with tally.case("signals"):
        check_signal(number, n_steps, place, 0.6, tmp_path / "run", tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_all_processes_is_for_the_parent(number: signal.Signals, tmp_path: Path, tally: Tally) -> None:
    """As schedulers, systemd and terminals send it: workers and what forks them go on until their parent has saved."""
    folder = tmp_path / "run"
    process = start(folder, 32, "workers")
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    time.sleep(0.6)
    with tally.case("signals to all processes"):
        os.killpg(process.pid, number)
        code, line = finish(process)
        assert code == (0 if number == signal.SIGUSR1 else 128 + number)
        if code:
            assert PPO.load(CheckpointFolder(folder).newest(), device="cpu").num_timesteps <= int(line.split()[0])
            code, line = finish(start(folder, 32, "workers", "resume"))
            assert code == 0
        assert line == uninterrupted(32, str(tmp_path))


@pytest.mark.slow
def test_fifty_signals(tmp_path: Path, tally: Tally) -> None:
    moments = random.Random(0)
    for trial, (number, n_steps, place) in enumerate(itertools.islice(itertools.cycle(KINDS), 50)):
        with tally.case("signals"):
            check_signal(number, n_steps, place, moments.uniform(0.0, 1.2), tmp_path / f"run-{trial}", tmp_path)


def check_warnings(count: int, n_steps: int, folder: Path, root: Path, chance: random.Random, tally: Tally) -> None:
    """Warn a training ``count`` times by SIGUSR1: a checkpoint each time, and the same weights."""
    process = start(folder, n_steps, "inside")
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    for _ in range(count):
        with tally.case("SIGUSR1"):
            before = newest_writing(folder)
            process.send_signal(signal.SIGUSR1)
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and newest_writing(folder) == before:
                assert time.monotonic() < deadline, "no checkpoint after SIGUSR1"
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.05))
    code, line = finish(process)
    assert code == 0
    assert line == uninterrupted(n_steps, str(root))


def test_a_warning_when_nothing_is_trained_ends_nothing(tmp_path: Path, tally: Tally) -> None:
    """While a command prepares its run, and while it evaluates what came out."""
    words = ["CartPole-v1", "--steps", "256", "--eval-episodes", "300", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "proximo", "train", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    with tally.case("SIGUSR1"):
        process.stdout.readline()  # the command has begun
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.02)
        assert process.returncode == 0, process.stdout.read()
        assert list(tmp_path.glob("*/result.json"))


def newest_writing(folder: Path) -> float:
    return max((path.stat().st_mtime_ns for path in folder.glob("model_*")), default=0)


def test_a_warning_saves_a_checkpoint_and_the_training_goes_on(tmp_path: Path, tally: Tally) -> None:
    check_warnings(2, 160, tmp_path / "run", tmp_path, random.Random(0), tally)


@pytest.mark.slow
def test_fifty_warnings(tmp_path: Path, tally: Tally) -> None:
    for trial in range(25):
        check_warnings(2, (32, 160)[trial % 2], tmp_path / f"run-{trial}", tmp_path, random.Random(trial), tally)


def test_a_hang_up_asks_for_the_end() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with StopOnSignal(seconds_to_end=PATIENCE) as stop:
            signal.raise_signal(signal.SIGHUP)
        assert stop.exit_code == 129
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_ctrl_c_that_a_callback_from_c_swallows_ends_the_training_when_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels are compiled by LLVM, which calls back; Python drops what is raised there."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        keep_interrupts()
        ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
        assert [what.exc_type for what in dropped] == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt), StopOnSignal():
            pass
        with StopOnSignal() as stop:  # once is enough
            assert stop.signal_number is None
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_hang_up_that_was_ignored_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with StopOnSignal() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGUSR1) == stop._receive_warning
        assert stop.signal_number is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_second_signal_ends_at_once_and_keeps_the_checkpoint(tmp_path: Path, tally: Tally) -> None:
    with tally.case("second signals"):
        process = start(tmp_path, 160, "workers")
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        while not CheckpointFolder(tmp_path).all():  # the first one comes before the first step
            time.sleep(0.01)
        workers = children_of(process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        wait_until_gone(workers)
        assert CheckpointFolder(tmp_path).newest().is_file()


def test_ctrl_c_in_a_notebook_leaves_the_model_usable() -> None:
    from proximo.training.callbacks import BaseCallback

    class Impatient(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 40:
                signal.raise_signal(signal.SIGINT)
            return True

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, seed=0)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            model.learn(1000, callback=Impatient())
    finally:
        signal.signal(signal.SIGINT, previous)
    assert model.num_timesteps == 40
    assert model.env is not None
    actions, _ = model.predict(model.env.reset())
    assert actions.shape == (1,)
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps == 104
