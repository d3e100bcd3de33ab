"""`proximo tune`, as a person starts it, kills it and goes on with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from proximo.cli import tune_session
from proximo.cli.main import main
from proximo.cli.tune import Tune, joined, parse_arguments, planned, session_words, train_words
from proximo.training.journal import read_journal
from proximo.tuning import Study
from proximo.tuning.study import StudyError

SPACE = """
[gamma]
low = 0.9
high = 0.999
"""
START = """
env = "CartPole-v1"
algo = "ppo"
n_envs = 2
n_timesteps = 512
n_steps = 64
batch_size = 32
n_epochs = 1
"""


def proximo(*words: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "proximo", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_study_that_was_killed_goes_on_and_trains_no_step_twice(tmp_path):
    (tmp_path / "start.toml").write_text(START)
    (tmp_path / "space.toml").write_text(SPACE)
    words = ["--preset", "start.toml", "--space", "space.toml", "--trials", "1", "--seeds", "1", "--rungs", "2",
             "--reduction", "2", "--eval-episodes", "2", "--fresh-seeds", "0", "--jobs", "1"]  # fmt: skip
    process = proximo("tune", "--study", "mine", *words, folder=tmp_path)
    try:
        wait_for(lambda: list((tmp_path / "mine").glob("trials/0000/*/progress.jsonl")), process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finally:
        process.kill()
    going_on = proximo("tune", "--study", "mine", *words, folder=tmp_path)  # the same command
    printed, _ = going_on.communicate(timeout=600)
    assert going_on.returncode == 0, printed
    study = Study.open(tmp_path / "mine")
    assert study.is_over()
    (job,) = study.jobs()
    (log,) = job.folder.glob("*/progress.jsonl")  # one run, which went on after the kill and at each rung
    steps = [json.loads(line)["time/total_timesteps"] for line in log.read_text().splitlines()]
    assert steps == [128, 256, 384, 512]
    assert job.steps == {0: {1: 256}, 1: {1: 512}}
    assert job.steps_trained() == 512
    assert job.steps_from_scratch() == 768
    sessions = [event["event"] for event in read_journal(log.with_name("journal.jsonl"))].count("start")
    assert sessions in (2, 3)  # two rungs; the kill may have come when the first was reached
    best = tomllib.loads((study.path / "best.toml").read_text())
    assert (best["env"], best["algo"]) == ("CartPole-v1", "ppo")
    assert (study.path / "study.png").read_bytes().startswith(b"\x89PNG")
    assert "train it with: proximo train --preset mine/best.toml" in printed
    assert main(["train", "--preset", str(study.path / "best.toml"), "--print-config"]) == 0


def wait_for(condition, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        if time.monotonic() > deadline or process.poll() is not None:
            raise TimeoutError(process.communicate()[0])
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pendulum_study(tmp_path_factory):
    """A study that is there, with nothing trained."""
    settings, space = planned(Tune(env="Pendulum-v1", trials=3))
    return Study.create(tmp_path_factory.mktemp("studies") / "pendulum", settings, space).path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the id of an environment"),
        (["--study", "absent"], "there is no study at absent; "),
        (["Pendulu-v1"], "unknown environment id 'Pendulu-v1'"),
        (["Pendulum-v1", "--algo", "pp"], "there is no algorithm 'pp'; did you mean 'ppo'"),
        (["Pendulum-v1", "--reduction", "1"], "--reduction is 1; expected at least 2"),
        (["Pendulum-v1", "--steps", "2", "--rungs", "9"], "2 steps are too few for 9 rungs"),
        (["Pendulum-v1", "--pruner", "wilcoxon", "--seeds", "1"], "it needs 4"),
        (["Pendulum-v1", "--space", "absent.toml"], "absent.toml"),
        (["Pendulum-v1", "--space", "policy.toml"], "MlpPolicy has no argument 'net_arc'; did you mean 'net_arch'"),
        (["Pendulum-v1", "--space", "wrong.toml"], "'gama', which is no hyperparameter; did you mean 'gamma'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_there_is_a_folder(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("[gama]\nlow = 0.9\nhigh = 0.99\n")
    Path("policy.toml").write_text("[policy_kwargs.net_arc]\nchoices = [[64, 64]]\n")
    assert main(["tune", *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(os.listdir()) == ["policy.toml", "wrong.toml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1"], "is of Pendulum-v1, not of CartPole-v1; give another --study"),
        (["--algo", "a2c"], "is of ppo, not of a2c"),
        (["--seeds", "5"], "has --seeds 3, not 5; leave it out"),
        (["--seeds", "3", "--print-space"], "takes no --print-space"),
        (["--preset", "none"], "began with other values than --preset has now"),
        (["--trials", "2"], "has 3 trials, 2 are fewer"),
    ],
)
def test_a_study_of_another_kind_is_refused(words, message, pendulum_study, capsys):
    assert main(["tune", *words, "--study", str(pendulum_study)]) == 2
    assert message in capsys.readouterr().err


def test_the_command_that_began_a_study_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("start.toml").write_text(START)
    Path("space.toml").write_text(SPACE)
    words = ["--preset", "start.toml", "--space", "space.toml", "--envs", "4", "--rungs", "2", "--study", "mine"]
    arguments = parse_arguments(words)
    study = Study.create(Path("mine"), *planned(arguments))
    there = joined(arguments, study.path)
    assert (there.settings, there.space.as_table()) == (study.settings, study.space.as_table())
    Path("space.toml").write_text(SPACE.replace("0.999", "0.99"))
    with pytest.raises(StudyError, match="began with other values than --space has now"):
        joined(arguments, study.path)


def test_the_space_is_shown_and_read_again(tmp_path, capsys):
    assert main(["tune", "CartPole-v1", "--algo", "a2c", "--print-space"]) == 0
    shown = capsys.readouterr().out
    (tmp_path / "my.toml").write_text(shown)
    assert main(["tune", "CartPole-v1", "--algo", "a2c", "--print-space", "--space", str(tmp_path / "my.toml")]) == 0
    assert capsys.readouterr().out == shown
    assert tomllib.loads(shown)["n_steps"] == {"low": 4, "high": 512, "powers_of": 2}


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    assert "proximo tune Pendulum-v1 --trials 50 --seeds 3 --jobs 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "workers", "passed_on"),
    [
        ([], None, []),
        (["--workers"], "cores", ["--workers", "cores"]),
        (["--workers", "--trials", "3"], "cores", ["--workers", "cores"]),
        (["--workers", "auto"], "auto", ["--workers", "auto"]),
        (["--workers", "0"], 0, ["--workers", "0"]),
        (["--workers", "2", "--device", "cpu"], 2, ["--workers", "2", "--device", "cpu"]),
    ],
)
def test_workers_are_those_of_a_training(words, workers, passed_on):
    arguments = parse_arguments(["Pendulum-v1", *words])
    assert arguments.workers == workers
    assert session_words(arguments) == passed_on
    assert train_words(arguments) == ["Pendulum-v1", *passed_on]


def test_workers_that_no_training_has_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "Pendulum-v1", "--workers", "-1"]) == 2
    assert "--workers is -1; expected auto, cores, or a number of at least 0" in capsys.readouterr().err
    assert os.listdir() == []


def test_the_best_preset_is_written_before_anything_is_told_of_it(tmp_path, monkeypatch):
    settings, space = planned(Tune(env="Pendulum-v1", trials=1, seeds=1, rungs=1, fresh_seeds=0))
    study = Study.create(tmp_path, settings, space)
    job = study.next_job()
    job.record(1, 5.0, settings.rungs[-1])
    assert study.decide(job) == "done"
    job.release()

    def fails(study):
        raise OSError("unreadable")

    monkeypatch.setattr(tune_session, "trials_table", fails)
    with pytest.raises(OSError, match="unreadable"):
        tune_session.TuneSession(study, 1).finish()
    assert tomllib.loads((tmp_path / "best.toml").read_text())["env"] == "Pendulum-v1"
