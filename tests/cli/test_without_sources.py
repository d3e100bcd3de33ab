"""The library from a zip, and with its sources removed: help texts, presets and trainings need no source files."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import proximo
from proximo.cli.main import COMMANDS

SOURCES = Path(proximo.__file__).parent
WITH_ARGUMENTS = [name for name in COMMANDS if name != "bench"]


RUN = "import sys, proximo; sys.stderr.write(proximo.__file__); from proximo.cli.main import main; main(sys.argv[1:])"


def run(path: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(path), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], capture_output=True, text=True, env=environment, cwd=cwd, check=True
    )
    assert done.stderr.startswith(str(path))
    return done


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zipped")
    return Path(shutil.make_archive(str(folder / "library"), "zip", SOURCES.parent, "proximo"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    shutil.copytree(SOURCES, folder / "proximo", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=1, legacy=True)
    for source in folder.rglob("*.py"):
        source.unlink()
    return folder


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_every_flag_has_its_help_text_in_its_metadata(name: str) -> None:
    module = import_module(f"proximo.cli.{name}")
    commands = [module.Push, module.Pull] if name == "hub" else [getattr(module, name.capitalize())]
    for item in (item for command in commands for item in fields(command)):
        assert item.metadata.get("meaning"), f"{name}: {item.name} has no text; write it with flag(text, default)"


def test_help_is_the_same_without_sources(zipped: Path, compiled: Path) -> None:
    for path, command, text in (
        (zipped, "inspect", "checkpoint or normal"),
        (compiled, "train", "of the training, all"),
    ):
        expected = run(SOURCES.parent, command, "--help").stdout
        assert text in expected
        assert run(path, command, "--help").stdout == expected


@pytest.mark.slow
def test_training_and_reporting_without_sources(zipped: Path, compiled: Path, tmp_path: Path) -> None:
    for path in (zipped, compiled):
        folder = tmp_path / path.name
        folder.mkdir()
        done = run(path, "train", "CartPole-v1", "--steps", "512", "--eval-episodes", "1", "--workers", cwd=folder)
        assert "compiled kernels cannot be kept" in done.stderr
        (trained,) = folder.glob("runs/*")
        run(path, "report", str(trained), cwd=folder)
        assert (folder / "report.html").is_file()
