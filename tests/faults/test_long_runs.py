"""Runs that are made longer, that resume under other versions, and that see a million episodes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from faults.episodes import check_sizes, train_episodes
from faults.trainings import CASES, PeriodicCheckpoints, digest, train
from proximo.errors import NotExactError
from proximo.persistence import versions
from proximo.training.checkpoints import CheckpointFolder
from proximo.training.loggers import configure

QUICK = ["a2c in process", "maskable_ppo in process", "ppg in process"]
PACKAGES = ("gymnasium", "numpy", "torch", "numba", "proximo")


def extend(name: str, folder: Path) -> dict[str, Any]:
    """Train a case to its end, and go on to its end a second time; the digest."""
    case = CASES[name]
    env = case.env()
    model = case.algorithm.load(CheckpointFolder(folder / "checkpoints").newest(), env=env)
    model.set_logger(configure(folder, ["csv", "json"], resume=True))
    model.learn(2 * case.steps - model.num_timesteps, callback=case.callbacks(folder), reset_num_timesteps=False)
    model.logger.close()
    env.close()
    return digest(model, folder)


def check_extension(name: str, folder: Path, tally: Any) -> None:
    for half in ("long", "short"):
        (folder / half).mkdir()
    train(CASES[name], folder / "long", 2 * CASES[name].steps)
    expected = json.loads((folder / "long" / "digest.json").read_text())
    with tally.case("runs made longer, equal to runs that were long from the start"):
        train(CASES[name], folder / "short")
        assert extend(name, folder / "short") == expected


@pytest.mark.parametrize("name", QUICK)
def test_a_run_that_was_made_longer_is_a_long_run(name, tmp_path, tally):
    check_extension(name, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
def test_every_run_that_was_made_longer_is_a_long_run(name, tmp_path, tally):
    check_extension(name, tmp_path, tally)


def test_resumes_under_other_versions_say_so(tmp_path, tally, monkeypatch):
    case = CASES["ppo in process"]
    env = case.env()
    model = case.algorithm(case.policy, env, seed=3, **case.arguments)
    model.learn(64, callback=PeriodicCheckpoints(tmp_path, every_steps=64))
    path, real = tmp_path / "model_64_steps.zip", versions.package_version
    for package in PACKAGES:
        other = {package: "0.0.1"}
        monkeypatch.setattr(versions, "package_version", lambda name, other=other: other.get(name) or real(name))
        with tally.case("resume under other versions"):
            again = case.algorithm.load(path, env=case.env())
            with pytest.warns(UserWarning, match=rf"{package} is 0\.0\.1, it was {re.escape(real(package))}"):
                again.learn(32, reset_num_timesteps=False)
            with pytest.raises(NotExactError, match=rf"{package} is 0\.0\.1"):
                case.algorithm.load(path, env=case.env()).resume(strict=True)
    env.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the environments already have a Monitor")
def test_a_million_episodes(tmp_path, tally):
    between = 60 * 64 * 64
    with tally.case("episodes of a training whose checkpoints do not grow", 1_000_000):
        files, model = train_episodes(tmp_path, 64, 1_000_000, between)
        assert model.env.episode_count >= 1_000_000
        small, large = check_sizes(files, between, max(files))
    print(f"checkpoints after {between:,} and {max(files):,} episodes: {small:,} and {large:,} bytes")
    shutil.rmtree(tmp_path)
