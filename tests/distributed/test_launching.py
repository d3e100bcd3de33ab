"""The command line in many processes: started by itself, by torchrun, and started again after a process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from proximo.cli.launching import interrupted_run, is_restarted, number_of_processes
from proximo.files.archive import read_archive

TRAIN = ["CartPole-v1", "--preset", "none", "--envs", "4", "--seed", "1", "--n-steps", "64", "--batch-size", "64"]
KILLS = 50
SHORT = ["--steps", "1024", "--n-epochs", "2", "--checkpoint-every", "256", "--eval-episodes", "3"]


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)


def weights(folder: Path) -> dict[str, np.ndarray]:
    _, tensors = read_archive(folder / "model.zip")
    return {name: tensor.numpy() for name, tensor in tensors["policy"].items()}


def only_run(folder: Path) -> Path:
    runs = sorted(folder.iterdir())
    assert len(runs) == 1, runs
    return runs[0]


def assert_same_run(found: Path, expected: Path) -> None:
    for name, value in weights(expected).items():
        np.testing.assert_array_equal(weights(found)[name], value, err_msg=name)


def test_processes_of_the_command_line_train_what_one_does(alone, tmp_path):
    words = ("-m", "proximo", "train", *TRAIN, *SHORT, "--processes", "2", "--runs-dir", str(tmp_path))
    done = run(sys.executable, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PPO on CartPole-v1") == 1
    assert "4 environments in 2 processes" in done.stdout
    assert "evaluation, 3 episodes" in done.stdout
    found = only_run(tmp_path)
    assert_same_run(found, alone)
    assert (found / "learning_curve.png").is_file()
    assert len((found / "progress.csv").read_text().splitlines()) == 1 + 1024 // 256


@pytest.mark.slow
def test_torchrun_goes_on_after_a_kill(alone, tmp_path):
    words = ("-m", "proximo", "train", *TRAIN, *SHORT, "--runs-dir", str(tmp_path))
    killed = kill_during_training(words, tmp_path, kills=1)
    assert killed == 1
    assert_same_run(only_run(tmp_path), alone)


@pytest.mark.slow
def test_kills_of_a_random_process_change_nothing(tmp_path):
    steps = str(256 * 10 * KILLS)  # some rollouts pass between a checkpoint and the kill that it is followed by
    long = ["--steps", steps, "--n-epochs", "1", "--checkpoint-every", "256", "--eval-episodes", "0"]
    (tmp_path / "alone").mkdir()
    (tmp_path / "killed").mkdir()
    done = run(sys.executable, "-m", "proximo", "train", *TRAIN, *long, "--runs-dir", str(tmp_path / "alone"))
    assert done.returncode == 0, done.stderr
    words = ("-m", "proximo", "train", *TRAIN, *long, "--runs-dir", str(tmp_path / "killed"))
    assert kill_during_training(words, tmp_path / "killed", kills=KILLS) == KILLS
    assert_same_run(only_run(tmp_path / "killed"), only_run(tmp_path / "alone"))


def kill_during_training(words: tuple[str, ...], folder: Path, kills: int) -> int:
    """Train under torchrun and kill a random process whenever a new checkpoint is there; how often that was done."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launcher += ["--max-restarts", str(kills + 1), "--monitor-interval", "0.1", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    random, done, newest, deadline = np.random.default_rng(0), 0, 0, time.monotonic() + 240 + 60 * kills
    with subprocess.Popen(launcher, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as agent:
        try:
            while agent.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
                steps = [int(path.stem.split("_")[1]) for path in folder.glob("*/checkpoints/model_*_steps.zip")]
                if done < kills and max(steps, default=0) > newest and len(children := children_of(agent.pid)) == 2:
                    newest = max(steps)
                    os.kill(children[int(random.integers(2))], signal.SIGKILL)
                    done += 1
            assert agent.poll() == 0, agent.communicate()[0].decode()
        finally:
            agent.kill()
    return done


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(status.parent.name))
    return sorted(found)


def test_how_many_processes():
    assert number_of_processes(3, 8) == 3
    assert 1 <= number_of_processes("auto", 8) <= 8
    assert number_of_processes("auto", 1) == 1
    with pytest.raises(ValueError, match="--processes 4 for 2 environments"):
        number_of_processes(4, 2)
    with pytest.raises(ValueError, match="expected at least 1"):
        number_of_processes(0, 2)


def test_a_first_start_finds_no_interrupted_run(alone, monkeypatch):
    assert interrupted_run(alone.parent) is None
    assert not is_restarted()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert is_restarted()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another launch")
    assert interrupted_run(alone.parent) is None
