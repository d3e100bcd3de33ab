"""``--workers``: decided by a timing, said in one line, kept by the run; the training is the same."""

from __future__ import annotations

import random
import sys
import tomllib

import numpy as np
import pytest
import torch

from proximo.cli import workers
from proximo.cli.main import main
from proximo.cli.train import parse_arguments, resumed_arguments, run_config
from proximo.files.archive import read_archive

SHORT = ["--preset", "none", "--envs", "2", "--seed", "1", "--n-steps", "16", "--batch-size", "16", "--n-epochs", "1",
         "--steps", "64", "--eval-episodes", "0"]  # fmt: skip
MODULE = '''
import random
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Slow(gym.Env):
    """Takes its time, and draws from everybody's generators."""

    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        random.random(), np.random.random()
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.002)
        self.steps += 1
        return np.full(1, self.np_random.normal(), np.float32), float(action), self.steps >= 9, False, {}


gym.register("Slow-v0", Slow)
'''


@pytest.fixture
def slow(tmp_path, monkeypatch):
    (tmp_path / "slow_steps.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    yield "slow_steps:Slow-v0"
    sys.modules.pop("slow_steps", None)


def config_of(*words):
    return run_config(parse_arguments(words))


def trained(folder, *words):
    assert main(["train", *words, *SHORT, "--runs-dir", str(folder)]) == 0
    (run,) = folder.iterdir()
    return run


def session_of(run):
    return tomllib.loads((run / "config.toml").read_text())["session"]


def test_quick_environments_stay_in_the_process(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    run = trained(tmp_path, "CartPole-v1")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("environments in")]
    assert len(lines) == 1
    assert lines[0].startswith("environments in this process: a step takes ")
    assert session_of(run)["workers"] == 0


def test_slow_environments_get_workers_and_train_the_same(slow, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    monkeypatch.setattr(workers, "START_SECONDS", 0.0)
    chosen = trained(tmp_path / "auto", slow)
    assert "environments in 2 worker processes: a step takes " in capsys.readouterr().out
    assert session_of(chosen)["workers"] == 2
    inside = trained(tmp_path / "inside", slow, "--workers", "0")
    assert "environments in" not in capsys.readouterr().out
    models = [read_archive(run / "model.zip")[1]["policy"] for run in (chosen, inside)]
    for name, weights in models[0].items():
        np.testing.assert_array_equal(weights, models[1][name])
    arguments, _ = resumed_arguments(parse_arguments(["--resume", str(chosen)]))
    assert arguments.workers == 2  # whatever a new timing would say


@pytest.mark.parametrize(("written", "kept"), [("true", "cores"), ("false", 0), ("3", 3), ('"auto"', "auto")])
def test_a_resumed_run_keeps_what_it_had(tmp_path, written, kept):
    run = trained(tmp_path, "CartPole-v1", "--workers", "0")
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace("workers = 0", f"workers = {written}"))
    arguments, _ = resumed_arguments(parse_arguments(["--resume", str(run)]))
    assert arguments.workers == kept


@pytest.mark.parametrize(
    ("words", "cores", "expected"),
    [
        (["CartPole-v1", "--envs", "1"], 2, (0, "there is one")),
        (["CartPole-v1", "--envs", "4"], 1, (0, "there is one core for them")),
        (["PongNoFrameskip-v4", "--atari-native", "true"], 2, (0, "they step in threads of their own")),
    ],
)
def test_what_needs_no_timing(monkeypatch, words, cores, expected):
    monkeypatch.setattr(workers, "usable_cores", lambda: cores)
    monkeypatch.setattr(workers, "seconds_of_step", lambda _: pytest.fail("was timed"))
    config = config_of(*words)
    assert workers.decide(config, config.preset.n_envs) == expected


def test_flags_of_workers_ask_for_them(monkeypatch):
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    decision = workers.decide(config_of("CartPole-v1"), 8, "--on-env-failure restart")
    assert str(decision) == "environments in 2 worker processes: asked for by --on-env-failure restart"
    native = config_of("PongNoFrameskip-v4", "--atari-native", "true")
    with pytest.raises(ValueError, match=r"--step-timeout: for worker processes, but Pong.* in threads of its own"):
        workers.decide(native, 8, "--step-timeout")


def test_an_environment_that_fails_is_left_to_the_training(monkeypatch):
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    monkeypatch.setattr(workers, "make_preset_env", lambda *_, **__: 1 / 0)
    assert workers.decide(config_of("CartPole-v1"), 8) == (0, "one failed when it was timed (ZeroDivisionError)")


def test_a_timing_draws_nothing(slow):
    config = config_of(slow, "--preset", "none")
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    expected = random.random(), np.random.random(), float(torch.rand(()))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    assert workers.seconds_of_step(config) >= 0.002
    assert (random.random(), np.random.random(), float(torch.rand(()))) == expected


@pytest.mark.parametrize(
    ("words", "value"),
    [(["--workers"], "cores"), (["--workers", "auto"], "auto"), (["--workers", "3"], 3), ([], "auto")],
)
def test_how_it_is_written(words, value):
    assert parse_arguments([*words, "CartPole-v1"]).workers == value
    assert parse_arguments(["CartPole-v1", *words]).workers == value
    assert parse_arguments(["CartPole-v1", *words, "--video"]).video
