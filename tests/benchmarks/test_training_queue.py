"""The queue of long trainings: processes that share the cores, and that end with it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.training_queue import parse_arguments

ROOT = Path(__file__).parents[2]
QUEUE = """
import signal, sys
from pathlib import Path
from rich.console import Console
from benchmarks.pybullet import RobotTraining
from benchmarks.training_queue import run_queue

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a shell
trainings = [RobotTraining(seed, "Hopper", "a2c", "gaussian") for seed in (90, 91)]
sys.exit(run_queue(trainings, 1000, Path(sys.argv[1]), Console()))
"""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A queue of two trainings, both under way."""
    process = subprocess.Popen([sys.executable, "-c", QUEUE, str(tmp_path)], cwd=ROOT)
    try:
        wait_until(lambda: sum(path.stat().st_size > 0 for path in tmp_path.glob("*/*/progress.csv")) == 2)
        yield process
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: not trainings_under_way(tmp_path))


def test_a_queue_that_would_train_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pybullet", "--jobs", "0"])
    with pytest.raises(SystemExit):
        parse_arguments(None, Path("runs"), "Ant")
    assert "--jobs is 0; expected at least 1" in capsys.readouterr().err


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(1200):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it has not come true for two minutes")


def trainings_under_way(runs: Path) -> list[str]:
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(runs) in line and "--train" in line]


@pytest.mark.skipif(sys.platform != "linux", reason="trainings notice the end of their parent on Linux")
def test_a_killed_queue_leaves_no_training_behind(queue: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert len(trainings_under_way(tmp_path)) == 2
    queue.kill()
    wait_until(lambda: not trainings_under_way(tmp_path))
    assert len(list(tmp_path.glob("*/*/checkpoints/*.zip"))) == 2


def test_sigterm_stops_a_queue_in_the_background(queue: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for log in tmp_path.glob("*/log.txt"):
        assert "there is one core for them" in log.read_text()
    queue.send_signal(signal.SIGTERM)
    assert queue.wait(timeout=120) == 130
    assert not trainings_under_way(tmp_path)
    assert len(list(tmp_path.glob("*/*/checkpoints/*.zip"))) == 2
