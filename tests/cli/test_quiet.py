"""Only our own lines reach the terminal; what others print is kept in the run folder."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from proximo.cli.main import main

CHATTY = """
import os
import sys

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class Chatty(CartPoleEnv):
    def __init__(self, fails=False, **kwargs):
        os.write(1, b"from C to the output\\n")
        os.write(2, b"from C to the errors\\n")
        print("from Python")
        if fails:
            raise ValueError("it is broken")
        super().__init__(**kwargs)


gym.register("Chatty-v0", entry_point=Chatty, max_episode_steps=500)
"""
WORDS = ["train", "chatty:Chatty-v0", "--envs", "2", "--steps", "128", "--n-steps", "64", "--eval-episodes", "1"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "chatty.py").write_text(CHATTY)
    return tmp_path


def command(folder: Path, *words: str) -> tuple[list[str], dict[str, object]]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return [sys.executable, "-m", "proximo", *words], {"cwd": folder, "env": {**os.environ, "PYTHONPATH": path}}


def test_the_first_training_says_why_it_waits(tmp_path):
    (cache := tmp_path / "cache").mkdir(mode=0o700)
    words, options = command(tmp_path, "train", "CartPole-v1", *WORDS[2:])
    options["env"] |= {"PROXIMO_CACHE_DIR": str(cache)}
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **options)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split(",")[0] for line in lines if "compiling" in line] == ["compiling kernels"]
    assert "compiling" in "".join(lines[:2]), "before anything is trained"


def test_what_workers_print_goes_to_a_file(folder):
    words, options = command(folder, *WORDS, "--workers", "--checkpoint-mode", "off")  # which would warn
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **options)
    assert result.returncode == 0, result.stderr
    assert "from C" not in result.stdout + result.stderr
    assert "from Python" not in result.stdout + result.stderr
    assert result.stderr == ""
    assert "  printed by others  output.log\n" in result.stdout
    (run,) = (folder / "runs").iterdir()
    log = (run / "output.log").read_text()
    for line in ("from C to the output", "from C to the errors", "from Python"):
        assert log.count(line) >= 2


def test_debug_shows_everything(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert main([*WORDS, "--debug"]) == 0
    shown = capfd.readouterr()
    assert shown.out.count("from C to the output") >= 2
    assert shown.out.count("from Python") >= 2
    assert "from C to the errors" in shown.err
    (run,) = (folder / "runs").iterdir()
    assert not (run / "output.log").exists()


def test_an_error_comes_with_what_was_printed_before_it(folder):
    words, options = command(folder, *WORDS, "--env-kwargs", "fails = true")
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **options)
    assert result.returncode == 2
    first, *others = result.stderr.splitlines()
    assert first == "error: it is broken"
    assert "from C to the errors" in others
    assert not (folder / "runs").exists()


def test_a_terminal_shows_the_live_bar_and_nothing_of_others(folder):
    words, options = command(folder, *WORDS)
    master, slave = pty.openpty()
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, close_fds=True, **options)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # Linux's end of a terminal
            break
        if not piece:
            break
        shown += piece
    assert process.wait(timeout=300) == 0, shown
    os.close(master)
    assert b"training" in shown
    assert b"100 %" in shown
    assert b"from C" not in shown
    assert b"from Python" not in shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # the cursor is given back
    (run,) = (folder / "runs").iterdir()
    assert (run / "output.log").read_text().count("from Python") >= 2


def test_pybullet_is_quiet(folder):
    pytest.importorskip("pybullet_envs_gymnasium")
    words, options = command(
        folder, "train", "InvertedPendulumSwingupBulletEnv-v0", "--steps", "64", "--n-steps", "32", "--envs", "2",
        "--batch-size", "32", "--eval-episodes", "1",
    )  # fmt: skip
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **options)
    assert result.returncode == 0, result.stderr
    assert "argv[0]" not in result.stdout + result.stderr
    assert "build time" not in result.stdout + result.stderr
    (run,) = (folder / "runs").iterdir()
    assert (run / "output.log").read_text().count("argv[0]") >= 2
