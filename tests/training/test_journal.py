"""The journal of a run: what a session leaves behind, however it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import pytest

from proximo import PPO
from proximo.cli.main import main
from proximo.reports.results import read_run
from proximo.training import journal as journal_module
from proximo.training import signals
from proximo.training.callbacks import BaseCallback
from proximo.training.journal import ACTIVITIES, Journal, read_journal
from proximo.training.run_folder import RunFolder


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests turn by hand."""
    now = [100.0]
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: now[0])
    return now


def test_time_is_counted_once(tmp_path, clock):
    """An evaluation within a rollout is no time of the rollout."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        clock[0] += 1.0
        journal._on_rollout_start()
        clock[0] += 2.0
        with journal.spending("evaluation"):
            clock[0] += 4.0
        clock[0] += 8.0
        journal._on_rollout_end()
        clock[0] += 16.0
        journal._between_iterations()
        clock[0] += 32.0
        journal._on_training_end()
    start, end = read_journal(tmp_path / "journal.jsonl")
    assert (start["event"], end["event"], end["ending"]) == ("start", "end", "finished")
    assert end["seconds"] == {
        "rollouts": 10.0, "updates": 16.0, "checkpoints": 32.0, "evaluation": 4.0, "film": 0.0, "other": 1.0,
    }  # fmt: skip


def test_a_long_session_writes_its_times_on_the_way(tmp_path, clock):
    with Journal(tmp_path / "journal.jsonl") as journal:
        for _ in range(10):
            clock[0] += 25.0
            journal._between_iterations()
    written = [json.loads(line) for line in journal.path.read_text().splitlines()]
    times = [sum(entry["seconds"].values()) for entry in written if entry["event"] == "time"]
    assert times == [75.0, 150.0, 225.0]
    assert [entry["event"] for entry in read_journal(journal.path)] == ["start", "time", "end"]  # the last of them


def test_as_a_callback_it_hears_of_rollouts_and_updates_only(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert not journal.wants_steps()
        PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=1).learn(256, callback=[journal, BaseCallback()])
    assert journal.seconds["rollouts"] > 0.0
    assert journal.seconds["updates"] > 0.0
    assert read_journal(journal.path)[-1]["steps"] == 256


def test_a_failure_is_written_down(tmp_path):
    with pytest.raises(ZeroDivisionError), Journal(tmp_path / "journal.jsonl"):
        1 / 0  # noqa: B018
    end = read_journal(tmp_path / "journal.jsonl")[-1]
    assert (end["ending"], end["error"]) == ("failed", "ZeroDivisionError: division by zero")


def test_what_cannot_be_read_is_left_out(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert read_journal(path) == []
    lines = ['{"event": "start"}', "[1]", '{"event": 3}', "[" * 100_000, "\ufffd", '{"event": "warning", "te']
    path.write_text("\n".join(lines))
    assert read_journal(path) == [{"event": "start"}]


def test_sessions_of_a_killed_and_resumed_run_add_up(tmp_path):
    """The second session is killed, the third goes on: what is known of each counts."""
    (tmp_path / "config.toml").write_text('env = "X"\nalgo = "ppo"\nseed = 1\npreset = "default"\n')
    counted = [{"rollouts": 1.0, "other": 2.0}, {"rollouts": 10.0}, {"rollouts": 20.0}, {"rollouts": 100.0}]
    events = [
        {"event": "start"}, {"event": "end", "ending": "interrupted", "seconds": counted[0]},
        {"event": "start"}, {"event": "time", "seconds": counted[1]}, {"event": "time", "seconds": counted[2]},
        {"event": "start"}, {"event": "time", "seconds": counted[3]},
    ]  # fmt: skip
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    result = read_run(RunFolder(tmp_path))
    assert result.seconds == {"rollouts": 121.0, "other": 2.0}
    assert result.status == "running"
    long_ago = time.time() - 3600
    for file in tmp_path.iterdir():
        os.utime(file, (long_ago, long_ago))
    assert read_run(RunFolder(tmp_path)).status == "stopped"


def test_the_command_writes_one(tmp_path, capsys):
    """Also warnings from before there was a run folder; an evaluation during the training counts as one."""
    words = ["--steps", "1024", "--eval-every", "512", "--eval-episodes", "2", "--seed", "1", "--device", "cuda"]
    assert main(["train", "CartPole-v1", *words, "--runs-dir", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    _, warning, *_, end = read_journal(run / "journal.jsonl")
    assert "PyTorch finds no CUDA here" in warning["text"]
    assert end["ending"] == "finished"
    assert set(end["seconds"]) == set(ACTIVITIES)
    assert all(end["seconds"][name] > 0.0 for name in ("rollouts", "updates", "evaluation"))
    result = read_run(RunFolder(run))
    assert [evaluation.steps for evaluation in result.evaluations] == [512, 1024]
    assert result.evaluation is result.evaluation_after_training  # of two at the last step


def test_an_interrupted_command_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "SECONDS_TO_END", 120.0)  # a busy machine may take its time

    def interrupt() -> None:
        while not any(path.stat().st_size for path in tmp_path.glob("*/progress.csv")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt, daemon=True)
    sender.start()
    words = ["--steps", "10000000", "--eval-episodes", "0", "--runs-dir", str(tmp_path)]
    assert main(["train", "CartPole-v1", *words]) == 130
    sender.join()
    (run,) = tmp_path.iterdir()
    assert read_run(RunFolder(run)).status == "interrupted"
