"""Runs that go on beyond their end, start from the weights of others, and share no folder."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tomllib

import pytest
import torch

from proximo import PPO
from proximo.cli.main import main
from proximo.cli.runs import Run

SHORT = ["--seed", "3", "--envs", "4", "--eval-episodes", "0", "--checkpoint-every", "500"]
CLOCK = ("time/fps", "time/time_elapsed")


def rows(run):
    found = list(csv.DictReader((run / "progress.csv").open()))
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in found]


def weights(run, name="model.zip"):
    return torch.cat([value.flatten() for value in PPO.load(run / name).policy.state_dict().values()])


def train(folder, *words):
    assert main(["train", "CartPole-v1", *SHORT, *words, "--runs-dir", str(folder)]) == 0
    (run,) = folder.iterdir()
    return run


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """A run of 800 steps with constant hyperparameters."""
    root = tmp_path_factory.mktemp("constant")
    return train(root / "short", "--steps", "800", "--learning-rate", "1e-3", "--clip-range", "0.2")


def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / run.name)


def test_a_run_that_was_extended_is_the_run_that_was_long_from_the_start(constant, tmp_path, capsys):
    long = train(tmp_path / "long", "--steps", "2000", "--learning-rate", "1e-3", "--clip-range", "0.2")
    run = copy(constant, tmp_path)
    steps = int(rows(run)[-1]["time/total_timesteps"])
    assert (run / "checkpoints" / f"model_{steps}_steps.zip").exists()
    assert main(["train", "--resume", str(run), "--steps", "2e3"]) == 0
    printed = capsys.readouterr().out
    assert "is a schedule" not in printed
    assert rows(run) == rows(long)
    assert torch.equal(weights(run), weights(long))
    assert tomllib.loads((run / "config.toml").read_text())["n_timesteps"] == 2000
    assert main(["train", "--resume", str(run)]) == 0
    assert "nothing is left to train" in capsys.readouterr().out


def test_a_run_in_boundary_mode_goes_on_from_its_newest_boundary(tmp_path):
    words = ["--learning-rate", "1e-3", "--clip-range", "0.2", "--checkpoint-mode", "boundary"]
    short, long = (train(tmp_path / steps, "--steps", steps, *words) for steps in ("800", "1600"))
    assert main(["train", "--resume", str(short), "--steps", "1600"]) == 0
    assert rows(short) == rows(long)
    assert torch.equal(weights(short), weights(long))


def test_a_run_with_a_pause_is_the_run_without_schedules_and_all(tmp_path, capsys):
    whole = train(tmp_path / "whole", "--steps", "1600", "--learning-rate", "lin_1e-3")
    run = train(tmp_path / "paused", "--steps", "1600", "--learning-rate", "lin_1e-3", "--pause-at", "800")
    printed = capsys.readouterr().out
    steps = [int(row["time/total_timesteps"]) for row in rows(run)]
    assert 800 <= steps[-1] < 1600
    assert f"paused: {steps[-1]:,} of 1,600 steps" in printed
    assert json.loads((run / "result.json").read_text())["steps"] == steps[-1]
    assert not Run.open(run).is_over()
    assert main(["train", "--resume", str(run)]) == 0
    assert Run.open(run).is_over()
    assert rows(run) == rows(whole)
    assert torch.equal(weights(run), weights(whole))


def test_a_pause_needs_a_checkpoint_and_an_end(tmp_path, capsys):
    for words in (["--checkpoint-mode", "off"], ["--until", "400", "--eval-episodes", "1"]):
        command = ["train", "CartPole-v1", "--pause-at", "100", *words, "--runs-dir", str(tmp_path / "runs")]
        assert main(command) == 2
        assert "--pause-at needs a checkpoint at the pause" in capsys.readouterr().err


def test_what_schedules_make_of_more_steps_is_said(tmp_path, capsys):
    run = train(tmp_path / "runs", "--steps", "500", "--learning-rate", "lin_1e-3", "--clip-range", "0.2")
    capsys.readouterr()
    assert main(["train", "--resume", str(run), "--steps", "1000"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    steps = [int(row["time/total_timesteps"]) for row in rows(run)]
    assert "learning_rate is a schedule: it goes on over 1,000 steps, from 0 to 0.000488 now" in printed
    assert steps[-1] >= 1000
    assert steps == sorted(set(steps))


def test_fewer_steps_than_there_are_is_an_error(constant, tmp_path, capsys):
    run = copy(constant, tmp_path)
    assert main(["train", "--resume", str(run), "--steps", "100"]) == 2
    assert "--steps is 100, the run has" in capsys.readouterr().err


def test_a_new_run_starts_from_the_weights_of_another(constant, tmp_path, capsys):
    run = train(tmp_path / "runs", "--steps", "100", "--init-from", str(constant))
    assert "weights from" in capsys.readouterr().out
    assert torch.equal(weights(run, "checkpoints/model_0_steps.zip"), weights(constant))
    assert tomllib.loads((run / "config.toml").read_text())["session"]["init_from"] == str(constant)
    model = PPO.load(run / "checkpoints/model_0_steps.zip")
    assert (model.num_timesteps, model._n_updates) == (0, 0)
    moments = model.policy.optimizer.state_dict()["state"].values()
    assert not any(torch.as_tensor(value).any() for entry in moments for value in entry.values())
    again = train(tmp_path / "again", "--steps", "100", "--algo", "a2c", "--init-from", str(run / "model.zip"))
    assert (again / "model.zip").exists()


def test_weights_of_another_shape_are_refused_before_a_folder_is_made(constant, tmp_path, capsys):
    words = ["--policy-kwargs", "net_arch = [8]", "--init-from", str(constant), "--runs-dir", str(tmp_path / "runs")]
    assert main(["train", "CartPole-v1", *words]) == 2
    assert "the weights do not fit this policy" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_being_written_is_refused(constant, tmp_path, capsys):
    run = copy(constant, tmp_path)
    (run / "writer.1.lock").write_text(json.dumps({"owner": "node7~abc~1~4242~99", "since": "2026-01-01"}))
    before = (run / "progress.csv").read_bytes()
    assert main(["train", "--resume", str(run), "--steps", "2000"]) == 2
    assert "is being written by process 4242 on node7, since 2026-01-01" in " ".join(capsys.readouterr().err.split())
    assert (run / "progress.csv").read_bytes() == before
    os.utime(run / "writer.1.lock", (1.0, 1.0))
    assert main(["train", "--resume", str(run)]) == 0
    assert not list(run.glob("*.lock"))


def test_flags_without_effect_are_refused(tmp_path, capsys):
    def error(*words):
        assert main(["train", "CartPole-v1", *words, "--runs-dir", str(tmp_path / "runs")]) == 2
        return " ".join(capsys.readouterr().err.split())

    assert "--strict and --take-over are for runs that go on" in error("--strict")
    assert "--strict and --take-over are for runs that go on" in error("--take-over")
    assert "--step-timeout, --max-restarts: for environments in worker processes" in error(
        "--workers", "0", "--step-timeout", "5", "--max-restarts", "3"
    )
    assert "--stop-seconds is 0.0; expected a number above 0" in error("--stop-seconds", "0")
    assert not (tmp_path / "runs").exists()


def test_a_pause_lies_within_the_training(capsys):
    assert main(["train", "CartPole-v1", "--steps", "1000", "--pause-at", "5000"]) == 2
    assert "--pause-at is 5000, which is no pause in 1000 --steps" in " ".join(capsys.readouterr().err.split())
