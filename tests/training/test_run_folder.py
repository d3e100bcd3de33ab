"""Run folders: names that never collide, TOML that reads back, versions and errors."""

from __future__ import annotations

import datetime
import json
import math
import os
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proximo.training import run_folder
from proximo.training.run_folder import RunFolder, RunFolderError, collect_versions, git_revision, run_name, to_toml


class StoppedClock(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:  # type: ignore[override]
        return datetime.datetime(2030, 1, 2, 3, 4, 5)


def test_runs_of_the_same_second_get_their_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder.datetime, "datetime", StoppedClock)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: RunFolder.create(tmp_path / "runs", "CartPole-v1-ppo-0"), range(24)))
    names = {run.path.name for run in runs}
    base = "CartPole-v1-ppo-0-20300102-030405"
    assert names == {base, *(f"{base}-{count}" for count in range(2, 25))}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == names


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ("CartPole-v1", "CartPole-v1-ppo-7"),
        ("ALE/Pong-v5", "ALE_Pong-v5-ppo-7"),
        ("my.module:Env-v0", "my.module_Env-v0-ppo-7"),
        ("../../etc", "_.._etc-ppo-7"),
        ("x" * 400, "x" * 180),
    ],
)
def test_names_stay_within_the_root(environment: str, name: str, tmp_path: Path) -> None:
    assert run_name(environment, "ppo", 7) == name
    run = RunFolder.create(tmp_path, run_name(environment, "ppo", 7))
    assert run.path.parent == tmp_path
    assert run.path.is_dir()


def test_a_run_without_seed_says_so() -> None:
    assert run_name("A", "a2c", None) == "A-a2c-noseed"


def test_file_names(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    names = [run.config, run.versions, run.progress_csv, run.progress_jsonl, run.model]
    names += [run.checkpoints, run.learning_curve, run.video("gif"), run.video()]
    assert [path.relative_to(tmp_path).as_posix() for path in names] == [
        "config.toml",
        "versions.json",
        "progress.csv",
        "progress.jsonl",
        "model.zip",
        "checkpoints",
        "learning_curve.png",
        "video.gif",
        "video.mp4",
    ]
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------- TOML

texts = st.text(st.characters(codec="utf-8"))
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(texts, children, max_size=3),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(texts, values, max_size=5))
def test_toml_reads_back(config: dict[str, Any]) -> None:
    read = tomllib.loads(to_toml(config))
    assert read == config
    assert_same_types(read, config)


def assert_same_types(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, dict):
        for key in first:
            assert_same_types(first[key], second[key])
    if isinstance(first, list):
        for left, right in zip(first, second, strict=True):
            assert_same_types(left, right)


def test_toml_of_a_real_configuration(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    config = {
        "env": "CartPole-v1",
        "seed": None,
        "learning_rate": 3e-4,
        "target_kl": math.inf,
        "normalize": True,
        "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": []}, "ortho_init": False, "none": None},
        "layers": ({"width": 64, "bias": None}, {"width": 32, "bias": True}),
        "folder": Path("logs") / "a",
        "mean": np.float64(0.5),
        'key with spaces and "quotes"': "line\nbreak\ttab \\ \x7f 🚀 ü",
    }
    text = run.write_config(config)
    assert run.config.read_text(encoding="utf-8") == text
    assert run.read_config() == {
        "env": "CartPole-v1",
        "learning_rate": 3e-4,
        "target_kl": math.inf,
        "normalize": True,
        "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": []}, "ortho_init": False},
        "layers": [{"width": 64}, {"width": 32, "bias": True}],
        "folder": "logs/a",
        "mean": 0.5,
        'key with spaces and "quotes"': "line\nbreak\ttab \\ \x7f 🚀 ü",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_nan_survives() -> None:
    assert math.isnan(tomllib.loads(to_toml({"a": math.nan}))["a"])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": {"b": object()}}, r"a\.b is object"),
        ({"a": [1, None]}, "a is NoneType"),
        ({"a": torch.zeros(1)}, "a is Tensor"),
        ({1: 2}, "key is int"),
        ({"a": "\ud800"}, "half a character"),
    ],
)
def test_what_toml_cannot_hold(config: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        to_toml(config)


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for damage in (b"a = ", b"\xff"):
        run.config.write_bytes(damage)
        with pytest.raises(RunFolderError, match=r"config\.toml is not valid TOML"):
            run.read_config()


# ------------------------------------------------------------------------------------------------------------- open


def test_open_takes_the_folder_or_a_file_in_it(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "A-ppo-0")
    run.write_config({"a": 1})
    run.model.write_bytes(b"")
    assert RunFolder.open(run.path) == run
    assert RunFolder.open(str(run.model)) == run


def test_open_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="does not exist"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(RunFolderError, match=r"no run folder: it has no config\.toml; give another path"):
        RunFolder.open(tmp_path)
    run = RunFolder.create(tmp_path, "A-ppo-0")
    run.write_config({})
    with pytest.raises(RunFolderError, match=f"it holds the runs {run.path.name}: give one of these"):
        RunFolder.open(tmp_path)


# --------------------------------------------------------------------------------------------------------- versions


def test_versions_are_those_that_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    written = run.write_versions()
    read = json.loads(run.versions.read_text())
    assert read == written
    assert read["packages"]["torch"] == torch.__version__
    assert read["packages"]["numpy"] == np.__version__
    assert read["packages"]["gymnasium"] == gymnasium.__version__
    assert {"proximo", "numba"} <= read["packages"].keys()
    assert read["cores"] == os.cpu_count()
    assert read["cpu"]


def test_git_revision_inside_and_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert git_revision(tmp_path) is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    assert git_revision(tmp_path) is None, "a repository without a commit has no revision"
    (tmp_path / "code.py").write_text("1")
    git("add", "code.py")
    git("commit", "-q", "-m", "first")
    assert git_revision(tmp_path) == {"git_revision": git("rev-parse", "HEAD"), "git_changed": False}
    (tmp_path / "code.py").write_text("2")
    assert git_revision(tmp_path) == {"git_revision": git("rev-parse", "HEAD"), "git_changed": True}
    monkeypatch.chdir(tmp_path)
    assert collect_versions()["git_revision"] == git("rev-parse", "HEAD")


def test_without_git_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision(tmp_path) is None
    assert "git_revision" not in collect_versions()
