"""An error inside a user's environment: where it was is on the terminal and in the run's folder."""

from __future__ import annotations

import sys

import pytest

from proximo.cli.main import main

MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Broken(CartPoleEnv):
    steps = 0
    def step(self, action):
        self.steps += 1
        if self.steps > 40:
            self.break_down()
        return super().step(action)
    def break_down(self):
        raise {error}("the wheel came off")

gym.register("Broken-v0", Broken, max_episode_steps=100)
"""
SHORT = ["--steps", "400", "--envs", "1", "--n-steps", "16", "--batch-size", "16", "--eval-episodes", "0"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    def write(error):
        name = f"broken_{error.lower()}"
        (tmp_path / f"{name}.py").write_text(MODULE.format(error=error))
        return f"{name}:Broken-v0"

    monkeypatch.syspath_prepend(str(tmp_path))
    yield write
    for name in [name for name in sys.modules if name.startswith("broken_")]:
        del sys.modules[name]


@pytest.mark.parametrize("workers", [[], ["--workers"]])
def test_the_traceback_is_kept(package, workers, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = [package("ValueError"), *SHORT, *workers, "--runs-dir", str(tmp_path / "runs"), "--checkpoint-every", "16"]
    assert main(["train", *words]) == 2
    shown = capsys.readouterr().err
    (run,) = (tmp_path / "runs").iterdir()
    kept = (run / "error.txt").read_text()
    for text in (shown, kept):
        assert "the wheel came off" in text
        assert "broken_valueerror.py" in text
        assert "in break_down" in text
    assert "go on with: proximo train --resume" in " ".join(shown.split())
    assert (run / "model.zip").exists()


def test_an_error_of_another_kind_is_kept_too(package, tmp_path):
    with pytest.raises(KeyError, match="the wheel came off"):
        main(["train", package("KeyError"), *SHORT, "--runs-dir", str(tmp_path / "runs")])
    (run,) = (tmp_path / "runs").iterdir()
    assert "in break_down" in (run / "error.txt").read_text()


def test_an_error_of_the_library_stays_one_line(tmp_path, capsys):
    assert main(["train", "CartPole-v1", "--gamma", "2", "--runs-dir", str(tmp_path / "runs")]) == 2
    assert "Traceback" not in capsys.readouterr().err
