"""`proximo train --seeds`: several trainings as several processes, as a person starts, stops and resumes them."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from proximo import PPO
from proximo.cli.group import Group
from proximo.cli.main import main
from proximo.cli.report import found_runs
from proximo.cli.runs import Run
from proximo.cli.trainings import Lines, Training, progress_table
from proximo.training.run_folder import RunFolder

SHORT = ["--steps", "512", "--n-steps", "64", "--envs", "2", "--eval-episodes", "2"]
FAILS_WITH_SEED_7 = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class Fragile(CartPoleEnv):
    def reset(self, *, seed=None, options=None):
        if seed == 7:
            raise RuntimeError("this one is broken")
        return super().reset(seed=seed, options=options)


gym.register("Fragile-v0", entry_point=Fragile, max_episode_steps=500)
"""


def proximo(*words: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "proximo", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def weights(run: Path) -> torch.Tensor:
    return torch.cat([value.flatten() for value in PPO.load(run / "model.zip").policy.state_dict().values()])


def rows(run: Path) -> list[dict[str, str]]:
    found = list(csv.DictReader((run / "progress.csv").open()))
    return [{key: value for key, value in row.items() if key not in ("time/fps", "time/time_elapsed")} for row in found]


def test_one_failure_does_not_end_the_others(tmp_path):
    (tmp_path / "fragile.py").write_text(FAILS_WITH_SEED_7)
    process = proximo("train", "fragile:Fragile-v0", *SHORT, "--seeds", "1,7", "--jobs", "2", folder=tmp_path)
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 2, printed
    (group,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"fragile_Fragile-v0-ppo-seeds-1_7-\d{8}-\d{6}", group.name)
    assert "PPO on fragile:Fragile-v0: 2 seeds, 2 at a time" in printed
    assert "seed 1: done" in printed
    assert "seed 7 failed: " in printed
    assert "this one is broken" in printed
    assert f"go on with: proximo train --resume runs/{group.name}" in printed
    assert sorted(Group.open(group).runs()) == [1, 7]
    first = Group.open(group).runs()[1]
    assert first.folder.read_result()["steps"] == 512
    assert first.folder.read_result()["evaluation"] is not None

    # mended, only the one that failed is trained
    (tmp_path / "fragile.py").write_text(FAILS_WITH_SEED_7.replace("seed == 7", "False"))
    before = first.folder.model.stat().st_mtime_ns
    printed, _ = proximo("train", "--resume", str(group), folder=tmp_path).communicate(timeout=600)
    assert "seed 7: done" in printed
    assert "mean of 2 seeds" in printed
    assert first.folder.model.stat().st_mtime_ns == before
    assert all(run.folder.read_result()["steps"] == 512 for run in Group.open(group).runs().values())
    assert len(list((group / "failed").iterdir())) == 1  # without a checkpoint it began again


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_group_goes_on_where_each_training_was(number, tmp_path):
    words = ["train", "CartPole-v1", "--steps", "6000", "--envs", "2", "--n-steps", "64", "--eval-episodes", "0",
             "--checkpoint-every", "500", "--on-non-finite", "raise"]  # fmt: skip
    process = proximo(*words, "--seeds", "1,4", "--jobs", "2", folder=tmp_path)
    try:
        wait_for(lambda: len(list((tmp_path / "runs").glob("*/*/checkpoints/model_[1-9]*"))) >= 2, process)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    (group,) = (tmp_path / "runs").iterdir()
    if number == signal.SIGINT:
        assert process.returncode == 130, printed
        assert f"go on with: proximo train --resume runs/{group.name}" in printed
    children = [run.folder.path for run in Group.open(group).runs().values()]
    wait_for(lambda: not any(is_open_by_somebody(run) for run in children))  # they end with the one that started them
    unfinished = [run for run in Group.open(group).runs().values() if run.folder.read_result() is None]
    assert unfinished
    process = proximo("train", "--resume", str(group), folder=tmp_path)
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    assert main([*words, "--seed", "4", "--runs-dir", str(tmp_path / "alone")]) == 0
    (alone,) = (tmp_path / "alone").iterdir()
    resumed = Group.open(group).runs()[4].folder.path
    assert torch.equal(weights(alone), weights(resumed))
    assert rows(alone) == rows(resumed)
    assert sorted(Group.open(group).runs()) == [1, 4]
    assert len(list(group.glob("*/config.toml"))) == 2


def wait_for(condition, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            raise TimeoutError("it did not come" if process is None else process.communicate()[0])
        time.sleep(0.05)


def is_open_by_somebody(run: Path) -> bool:
    """Whether a process has the run's log open."""
    log = os.path.realpath(run / "progress.csv")
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(descriptor) == log:
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1", "--seeds", "1-3", "--seed", "1"], "give --seed or --seeds, not both"),
        (["CartPole-v1", "--seeds", "1-3", "--jobs", "0"], "--jobs is 0; expected at least 1"),
        (["CartPole-v1", "--seeds", "1-3", "--gamma", "3"], "gamma is 3.0"),
        (["CartPol-v1", "--seeds", "1-3"], "unknown environment id 'CartPol-v1'"),
    ],
)
def test_what_cannot_be_trained_is_refused_once_and_first(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["1-", "x", "3-1", "1,1", "-1"])
def test_seeds_that_cannot_be_read(text, capsys):
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", f"--seeds={text}"])
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "expected seeds such as 1-5 or 1,3,7-9" in shown or "name one twice" in shown


def training(seed: int, state: str, **latest: float) -> Training:
    metrics = {key.replace("__", "/"): latest[key] for key in latest}
    return Training(str(seed), seed, 1000, Path("log"), state=state, latest=metrics)


TRAININGS = [
    training(1, "training", time__total_timesteps=250, time__fps=50, rollout__ep_rew_mean=-12.345),
    training(2, "waiting"),
    training(3, "failed", time__total_timesteps=1000),
]


def test_the_table_tells_seed_steps_speed_return_and_time_left():
    console = Console(width=100)
    with console.capture() as capture:
        console.print(progress_table(TRAININGS, "seed"))
    header, first, second, third = [line.split() for line in capture.get().splitlines()]
    assert header == ["seed", "steps", "steps/s", "return", "left"]
    assert first == ["1", "training", "250", "25", "%", "50", "-12.3", "0:15"]
    assert second == ["2", "waiting", "0", "0", "%"]
    assert third == ["3", "failed", "1,000", "100", "%"]


def test_a_training_that_a_signal_ended_is_not_said_to_have_failed_as_before(tmp_path):
    """The log is that of all attempts; what an earlier one said is not why this one ended."""
    (tmp_path / "seed-1.log").write_text("PPO on CartPole-v1\nerror: the disk is full\n")
    killed = Training("1", 1, 1000, tmp_path / "seed-1.log")
    assert killed.reason() == "error: the disk is full"
    killed.start(["CartPole-v1"], 1)
    killed.process.kill()
    killed.process.wait()
    assert killed.has_ended()
    assert killed.reason() == "SIGKILL ended it, as the system does where memory is short; it had printed nothing"
    refused = Training("1", 1, 1000, tmp_path / "seed-1.log")
    refused.start(["CartPole-v1", "--steps", "0", "--runs-dir", str(tmp_path)], 1)
    refused.process.wait()
    assert refused.reason() == "error: --steps is 0; expected at least 1"


def test_plain_lines_tell_what_changes(capsys):
    lines = Lines(TRAININGS, "seed")
    lines()
    assert capsys.readouterr().out == "seed 1: training\nseed 3: failed\n"
    lines.next_time = 0.0
    lines()
    lines()
    assert capsys.readouterr().out == "seed 1: 250 of 1,000 steps  50 steps/s  return -12.3  0:15 left\n"


def test_a_group_is_evaluated_and_plotted_as_its_runs(tmp_path, capsys):
    group = Group.create(tmp_path, "CartPole-v1-ppo", (1, 2), 1, ["CartPole-v1", *SHORT])
    for seed in group.seeds:
        assert main(["train", *group.words, "--seed", str(seed), "--runs-dir", str(group.path)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(group.path), "--episodes", "2"]) == 0
    assert "mean of 2 seeds" in capsys.readouterr().out
    assert main(["plot", str(group.path), "-o", str(tmp_path / "curve.png")]) == 0
    assert [run.config.seed for run in Run.open_all([group.path])] == [1, 2]


def test_a_group_says_that_one_of_its_runs_takes_what_it_does_not(tmp_path, capsys):
    """`--resume RUN --steps 2e5` is in the help; of a group it is refused, with what can be done instead."""
    group = Group.create(tmp_path, "CartPole-v1-ppo", (1, 2), 1, ["CartPole-v1"]).path
    assert main(["train", "--resume", str(group), "--steps", "2e5"]) == 2
    said = "".join(capsys.readouterr().err.split())
    assert "takesno--steps" in said
    assert f"{group}isagroup;onerunofittakesmore:--resume{group}/RUN" in said


@pytest.mark.parametrize("file", ["group.toml", "preset.toml"])  # of a group, and of a study's trial
def test_what_is_set_aside_is_no_run(file, tmp_path):
    place = tmp_path / "runs"
    for folder in ("begun", "again"):
        (place / folder).mkdir(parents=True)
        (place / folder / "config.toml").touch()
    (place / file).touch()
    RunFolder(place / "begun").set_aside()
    assert (place / "failed" / "begun").is_dir()
    for above in (tmp_path, place):  # what report, its live view and compare are given
        assert found_runs([above]) == [place / "again"]
    (place / file).unlink()
    assert place / "failed" / "begun" in found_runs([tmp_path])  # a folder of that name elsewhere is any folder


def test_words_of_a_group_name_files_wherever_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("gamma = 0.5\n")
    words = ["A-v0", "--preset", "mine.toml", "--seeds", "7", "--runs-dir=here", "--init-from=mine.toml"]
    group = Group.create(tmp_path, "x", (7,), 1, words)
    mine = str(tmp_path / "mine.toml")
    assert Group.open(group.path).words == ("A-v0", "--preset", mine, "--init-from", mine)
    assert group.path.name.startswith("x-seeds-7-")
    underscores = Group.create(tmp_path, "x", (7,), 1, ["A-v0", "--runs_dir", "here", "--init_from", "mine.toml"])
    assert underscores.words == ("A-v0", "--init-from", mine)
    shutil.copy("mine.toml", group.path / "group.toml")
    with pytest.raises(ValueError, match="does not describe a group of runs"):
        Group.open(group.path)
