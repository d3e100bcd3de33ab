"""Reads every file of a folder in all ways there are, in a process of its own; prints what happened as JSON.

Usage: python hostile_runner.py GOOD_FOLDER HOSTILE_FOLDER
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from proximo import A2C, PPO
from proximo.envs import DummyVecEnv, VecNormalize
from proximo.errors import ProximoError
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.persistence.inspection import inspect_file


def main(good: Path, hostile: Path) -> None:
    venv = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
    model = PPO("MlpPolicy", "Pendulum-v1", device="cpu")
    ways: dict[str, Callable[[Path], Any]] = {
        "PPO.load": lambda path: PPO.load(path, device="cpu"),
        "A2C.load": lambda path: A2C.load(path, device="cpu"),
        "set_parameters": lambda path: model.set_parameters(path),
        "policy.load": lambda path: ActorCriticPolicy.load(path, device="cpu"),
        "inspect": inspect_file,
        "VecNormalize.load": lambda path: VecNormalize.load(path, venv),
    }
    for path in sorted(good.iterdir()):
        for way in ways.values():
            outcome(way, path)
    base = peak_kib()
    results = {}
    for path in sorted(hostile.iterdir()):
        results[path.name] = {name: outcome(way, path) for name, way in ways.items()}
        results[path.name]["peak"] = peak_kib() - base
    print(json.dumps(results))


def outcome(way: Callable[[Path], Any], path: Path) -> str:
    try:
        way(path)
    except ProximoError as error:
        return f"typed: {type(error).__name__}: {error}"
    except BaseException as error:
        return f"untyped: {type(error).__name__}: {error}"
    return "read"


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
