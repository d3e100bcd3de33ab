"""Hostile files: none is executed, each gives a typed error, and memory stays bounded."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import proximo
import proximo.envs
from proximo.cli.main import main
from proximo.files.restricted_pickle import Name, write_pickle

from .attacks import attacks
from .conftest import Tally
from .hostile_files import hostile_files, members_of, payloads, serialized, zipped

MEMORY_KIB = 256 * 1024
SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    proximo.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16).save(folder / "own.zip")
    stable_baselines3.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16).save(folder / "sb3.zip")
    normalizer = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    normalizer.reset()
    normalizer.save(str(folder / "statistics.pkl"))
    own = proximo.envs.VecNormalize(proximo.envs.make_vec_env("Pendulum-v1"))
    own.save(folder / "statistics.safetensors")
    return folder


def read_all(good: Path, files: Iterable[tuple[str, bytes]], hostile: Path, *ways: str) -> dict[str, dict[str, Any]]:
    """What reading each file gave, in a process of its own."""
    hostile.mkdir()
    for name, data in files:
        (hostile / name.replace("/", "_").replace("\\", "_")).write_bytes(data)
    runner = Path(__file__).with_name("hostile_runner.py")
    command = [sys.executable, str(runner), str(good), str(hostile), *ways]
    process = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    results: dict[str, dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return results


def check(results: dict[str, dict[str, Any]], kind_of: Callable[[str], str], marker: Path, tally: Tally) -> None:
    failures = []
    for name, outcomes in results.items():
        peak, kind = outcomes.pop("peak"), kind_of(name)
        # inspecting may succeed, as may reading what another reader does not look at: both show inert data only
        refused = outcomes["PPO.load"].startswith("typed") or kind.endswith("zips")
        typed = all(outcome.startswith(("typed", "read")) for outcome in outcomes.values())
        tally.tried[kind] += 1
        if refused and typed and peak < MEMORY_KIB and not marker.exists():
            tally.passed[kind] += 1
        else:
            failures.append((name, peak, {way: outcome[:200] for way, outcome in outcomes.items()}))
    assert not failures, "\n".join(map(str, failures))
    assert not marker.exists()


def test_hostile_files_are_refused_without_running_them(good: Path, tmp_path: Path, tally: Tally) -> None:
    marker = tmp_path / "marker"
    contents = [(good / name).read_bytes() for name in ("own.zip", "sb3.zip", "statistics.pkl")]
    ways = ("PPO.load", "A2C.load", "set_parameters", "policy.load", "inspect", "VecNormalize.load")
    results = read_all(good, hostile_files(*contents, marker), tmp_path / "files", *ways)
    assert len(results) >= 100
    check(results, lambda name: "hostile files", marker, tally)


def attack(good: Path, folder: Path, tally: Tally, all_places: bool, *ways: str) -> None:
    contents = [(good / name).read_bytes() for name in ("own.zip", "sb3.zip", "statistics.safetensors")]
    files = ((f"{kind}, {name}", data) for kind, name, data in attacks(*contents, all_places))
    results = read_all(good, files, folder / "files", *ways)
    check(results, lambda name: f"hostile files: {name.partition(',')[0]}", folder / "marker", tally)


def test_files_that_would_crash_stall_or_fill_the_machine(good: Path, tmp_path: Path, tally: Tally) -> None:
    attack(good, tmp_path, tally, False, "PPO.load", "inspect", "VecNormalize.load")


@pytest.mark.slow
def test_files_that_would_crash_stall_or_fill_the_machine_everywhere(good: Path, tmp_path: Path, tally: Tally) -> None:
    attack(good, tmp_path, tally, True)


def test_the_payloads_would_work(tmp_path: Path) -> None:
    """Absence of the marker means something only if unpickling makes it."""
    for name in ("os.system", "eval", "Path.touch", "cloudpickled function", "in a state"):
        marker = tmp_path / name
        try:
            pickle.loads(payloads(marker)[name])
        except Exception as error:  # after the deed
            assert name == "in a state", error  # noqa: PT017
        assert marker.exists(), name


def test_codes_of_a_file_do_not_reach_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keys of a pickled dictionary are names that ``load`` asks for, and so are shown."""
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu")
    model.save(tmp_path / "good.zip")
    members = members_of((tmp_path / "good.zip").read_bytes())
    data = json.loads(members["data"])
    evil = write_pickle({"\x1b[2J\x9b31m\u202e": Name("os", "system")})
    data["policy_kwargs"] = serialized(evil)
    members |= {"data": json.dumps(data).encode(), "system_info.txt": b"\x1b[2J- OS: x"}
    path = tmp_path / "\x1b[31mred.zip"
    path.write_bytes(zipped(members))
    assert main(["inspect", str(path)]) == 0
    told = capfd.readouterr()
    assert not {"\x1b", "\x9b", "\u202e"} & set(told.out + told.err)
    assert main(["convert", str(path), str(tmp_path / "out.zip")]) == 2
    told = capfd.readouterr()
    assert not {"\x1b", "\x9b", "\u202e"} & set(told.out + told.err)
    members |= {"data": json.dumps({**data, "policy_kwargs": {}}).encode()}
    path.write_bytes(zipped(members))
    proximo.PPO.load(path, print_system_info=True)
    assert "\x1b" not in capfd.readouterr().out
