"""``proximo train --resume RUN``: the same folder, the same total, the same numbers as without the interruption."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from proximo import PPO
from proximo.cli.main import main

SHORT = ["--steps", "1500", "--seed", "3", "--envs", "4", "--eval-episodes", "0", "--checkpoint-every", "500"]
CLOCK = ("time/fps", "time/time_elapsed")


def rows(run):
    found = list(csv.DictReader((run / "progress.csv").open()))
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in found]


def weights(run):
    return torch.cat([value.flatten() for value in PPO.load(run / "model.zip").policy.state_dict().values()])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", "CartPole-v1", *SHORT, "--runs-dir", str(folder)]) == 0
    (run,) = folder.iterdir()
    return run


@pytest.fixture
def interrupted(finished, tmp_path):
    """The run as a kill after its second checkpoint would have left it, with a half-written line in its log."""
    run = tmp_path / finished.name
    shutil.copytree(finished, run)
    (run / "model.zip").unlink()
    newest = sorted((run / "checkpoints").glob("model_*"), key=lambda path: int(path.name.split("_")[1]))[-1]
    newest.unlink()
    with (run / "progress.jsonl").open("a") as log:
        log.write('{"train/loss": 0.1')
    return run


def test_a_run_resumes_where_it_was(finished, interrupted, capsys):
    assert main(["train", "--resume", str(interrupted)]) == 0
    printed = capsys.readouterr().out
    assert "resuming from" in printed
    steps = [int(row["time/total_timesteps"]) for row in rows(finished)]
    newest = int(printed.partition("model_")[2].partition("_steps")[0])
    assert f"{steps[-1]:,} steps, {steps[-1] - newest:,} of them now in " in printed
    assert rows(interrupted) == rows(finished)
    assert (interrupted / "progress.jsonl").read_text().count("\n") == len(rows(finished))
    assert torch.equal(weights(interrupted), weights(finished))
    assert sorted(path.name for path in interrupted.parent.iterdir()) == [interrupted.name]


def test_a_run_at_its_last_step_says_that_nothing_is_left(interrupted, finished, capsys):
    assert main(["train", "--resume", str(interrupted)]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", str(interrupted)]) == 0
    printed = capsys.readouterr().out
    assert "nothing is left to train" in printed
    assert "training 0 of" not in printed
    assert ", 0 of them now in" in printed
    assert rows(interrupted) == rows(finished)
    assert torch.equal(weights(interrupted), weights(finished))


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_offered(finished, interrupted, capsys):
    folder = interrupted / "checkpoints"
    names = sorted((path.name for path in folder.glob("model_*")), key=lambda name: int(name.split("_")[1]))
    newest, previous = folder / names[-1], folder / names[-2]
    newest.write_bytes(newest.read_bytes()[:5000])
    before = (interrupted / "progress.csv").read_bytes()
    assert main(["train", "--resume", str(interrupted)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert newest.name in message
    assert previous.name in message
    assert (interrupted / "progress.csv").read_bytes() == before
    assert main(["train", "--resume", str(previous)]) == 0
    assert rows(interrupted) == rows(finished)
    assert torch.equal(weights(interrupted), weights(finished))
    assert (folder / f"{newest.name}.old").exists()


def test_what_cannot_be_resumed_says_why(finished, interrupted, tmp_path, capsys):
    def error(*words):
        assert main(["train", *words]) == 2
        return " ".join(capsys.readouterr().err.split())

    assert "takes no ENV, --seed, --gamma" in error(
        "CartPole-v1", "--resume", str(interrupted), "--seed", "1", "--gamma", "0.5"
    )
    assert "no run folder" in error("--resume", str(tmp_path / "nothing"))
    assert "give the id of an environment" in error("--steps", "10")
    assert "say when, in steps" in error("CartPole-v1", "--checkpoint-mode", "boundary")
    assert "not both" in error("CartPole-v1", "--checkpoint-every", "10", "--checkpoint-minutes", "1")
    shutil.rmtree(interrupted / "checkpoints")
    assert "start it again" in error("--resume", str(interrupted))


def test_boundary_mode_resumes_exactly(tmp_path):
    words = ["--checkpoint-mode", "boundary", "--keep-checkpoints", "9", "--runs-dir", str(tmp_path)]
    assert main(["train", "CartPole-v1", *SHORT, *words]) == 0
    (run,) = tmp_path.iterdir()
    expected = rows(run), weights(run)
    middle = sorted((run / "checkpoints").glob("model_5*"))[0]
    assert main(["train", "--resume", str(middle)]) == 0
    assert rows(run) == expected[0]
    assert torch.equal(weights(run), expected[1])


def test_no_checkpoints_when_they_are_off(tmp_path):
    words = ["--steps", "100", "--eval-episodes", "0", "--checkpoint-mode", "off", "--runs-dir", str(tmp_path)]
    assert main(["train", "CartPole-v1", *words]) == 0
    (run,) = tmp_path.iterdir()
    assert not (run / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--workers"]], ids=["in process", "workers"])
def test_the_command_is_killed_and_resumed(options, tmp_path):
    command = [sys.executable, "-c", "import sys; from proximo.cli.main import main; sys.exit(main())", "train"]
    words = ["CartPole-v1", "--steps", "60000", "--seed", "3", "--eval-episodes", "0", "--checkpoint-every", "2000"]
    runs = {}
    for name in ("straight", "killed"):
        words_here = [*words, *options, "--runs-dir", str(tmp_path / name)]
        process = subprocess.Popen([*command, *words_here], stdout=subprocess.DEVNULL, env=os.environ)
        if name == "killed":
            while not list((tmp_path / name).glob("*/checkpoints/model_*")):
                time.sleep(0.05)
            time.sleep(np.random.default_rng().uniform(0.0, 2.0))
            process.send_signal(signal.SIGKILL)
        process.wait()
        (runs[name],) = (tmp_path / name).iterdir()
    subprocess.run([*command, "--resume", str(runs["killed"])], check=True, stdout=subprocess.DEVNULL)
    assert rows(runs["killed"]) == rows(runs["straight"])
    assert torch.equal(weights(runs["killed"]), weights(runs["straight"]))
