"""Hostile files: none is executed, each gives a typed error, and memory stays bounded."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import proximo

from .conftest import Tally
from .hostile_files import hostile_files, payloads

MEMORY_KIB = 256 * 1024
SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, Any]], Path]:
    """What reading each hostile file gave, and the marker that no file must have made."""
    folder = tmp_path_factory.mktemp("hostile")
    good, hostile, marker = folder / "good", folder / "files", folder / "marker"
    good.mkdir(), hostile.mkdir()
    proximo.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16).save(good / "own.zip")
    stable_baselines3.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16).save(good / "sb3.zip")
    normalizer = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    normalizer.reset()
    normalizer.save(str(good / "statistics.pkl"))
    contents = [(good / name).read_bytes() for name in ("own.zip", "sb3.zip", "statistics.pkl")]
    for name, data in hostile_files(*contents, marker):
        (hostile / name.replace("/", "_").replace("\\", "_")).write_bytes(data)
    runner = Path(__file__).with_name("hostile_runner.py")
    process = subprocess.run(
        [sys.executable, str(runner), str(good), str(hostile)], capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1]), marker


def test_hostile_files_are_refused_without_running_them(
    run: tuple[dict[str, dict[str, Any]], Path], tally: Tally
) -> None:
    results, marker = run
    assert len(results) >= 100
    failures = []
    for name, outcomes in results.items():
        peak = outcomes.pop("peak")
        # inspecting may succeed, as may reading what another reader does not look at: both show inert data only
        refused = outcomes["PPO.load"].startswith("typed")
        typed = all(outcome.startswith(("typed", "read")) for outcome in outcomes.values())
        if refused and typed and peak < MEMORY_KIB and not marker.exists():
            with tally.case("hostile files"):
                pass
        else:
            tally.tried["hostile files"] += 1
            failures.append((name, peak, {way: outcome[:200] for way, outcome in outcomes.items()}))
    assert not failures, "\n".join(map(str, failures))
    assert not marker.exists()


def test_the_payloads_would_work(tmp_path: Path) -> None:
    """Absence of the marker means something only if unpickling makes it."""
    for name in ("os.system", "eval", "Path.touch", "cloudpickled function", "in a state"):
        marker = tmp_path / name
        try:
            pickle.loads(payloads(marker)[name])
        except Exception as error:  # after the deed
            assert name == "in a state", error  # noqa: PT017
        assert marker.exists(), name
