"""Reads every file of a folder in several ways, each in a process of its own; prints what happened as JSON.

Usage: python hostile_runner.py GOOD_FOLDER HOSTILE_FOLDER [WAY …]
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import torch

from proximo import A2C, PPO
from proximo.cli.convert import convert
from proximo.envs import DummyVecEnv, VecNormalize
from proximo.errors import ProximoError
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.persistence.inspection import inspect_file

CPU_SECONDS = 60  # a process that takes longer is killed: no file here needs a tenth of it


def main(good: Path, hostile: Path, *chosen: str) -> None:
    torch.set_num_threads(1)  # processes are forked
    warnings.simplefilter("ignore")
    venv = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
    model = PPO("MlpPolicy", "Pendulum-v1", device="cpu")
    ways: dict[str, Callable[[Path], Any]] = {
        "PPO.load": lambda path: PPO.load(path, device="cpu"),
        "A2C.load": lambda path: A2C.load(path, device="cpu"),
        "set_parameters": lambda path: model.set_parameters(path),
        "policy.load": lambda path: ActorCriticPolicy.load(path, device="cpu"),
        "inspect": inspect_file,
        "convert": lambda path: convert(path, path.with_suffix(".converted"), {}),
        "VecNormalize.load": lambda path: VecNormalize.load(path, venv),
    }
    ways = {name: way for name, way in ways.items() if not chosen or name in chosen}
    for path in sorted(good.iterdir()):
        for way in ways.values():
            outcome(way, path)
    print(json.dumps({path.name: in_process(ways, path) for path in sorted(hostile.iterdir())}))


def in_process(ways: dict[str, Callable[[Path], Any]], path: Path) -> dict[str, Any]:
    """What each way gave, and the memory that the process took above what it began with, in KiB."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            base = peak_kib()
            result: dict[str, Any] = {name: outcome(way, path) for name, way in ways.items()}
            os.write(writer, json.dumps({**result, "peak": peak_kib() - base}).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(answer) if answer else {"PPO.load": f"ended with status {status}", "peak": 0}


def outcome(way: Callable[[Path], Any], path: Path) -> str:
    try:
        way(path)
    except ProximoError as error:
        return f"typed: {type(error).__name__}: {str(error)[:1000]}"
    except BaseException as error:
        return f"untyped: {type(error).__name__}: {str(error)[:1000]}"
    return "read"


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
