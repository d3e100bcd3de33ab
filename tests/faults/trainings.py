"""Small trainings that can be killed and resumed, and the process that starts them quickly.

``python -m faults.trainings`` imports everything once and then forks a child per training: it reads a line
``{"case": …, "folder": …}``, prints the child's process id, and prints its exit status when it has ended.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from proximo import A2C, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.envs import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize
from proximo.training.callbacks import EvalCallback
from proximo.training.checkpoints import CheckpointFolder, NoCheckpointError, PeriodicCheckpoints
from proximo.training.loggers import configure

CLOCK_COLUMNS = ("time/fps", "time/time_elapsed")
SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
MEMORY: dict[str, Any] = {"lstm_hidden_size": 8, "net_arch": [8]}


class Masked(gym.Env[Any, Any]):
    """Forbids one action, another one in every step; knows nothing of states."""

    observation_space = gym.spaces.Box(-20.0, 20.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.normal()), 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_masks()[action]
        self.place += int(action) - 1 + 0.1 * float(self.np_random.normal())
        self.steps += 1
        return self._observation(), self.place, abs(self.place) > 8.0, self.steps >= 9, {}

    def action_masks(self) -> Any:
        return np.arange(4) != self.steps % 4

    def _observation(self) -> Any:
        return np.array([self.place, self.steps / 10.0], np.float32)


@dataclass(frozen=True)
class Case:
    """One training: what is trained, on which environments, with which checkpoints."""

    algorithm: type[Any]
    policy: str = "MlpPolicy"
    environment: Any = "CartPole-v1"
    arguments: dict[str, Any] = field(default_factory=dict)
    workers: bool = False
    boundary: bool = False
    wrap: bool = False
    evaluate: bool = False
    steps: int = 512
    every: int = 64

    def env(self) -> Any:
        workers = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}
        kind = workers if self.workers else {"vec_env_cls": DummyVecEnv}
        env = make_vec_env(self.environment, n_envs=2, seed=1, **kind)
        return VecNormalize(VecFrameStack(env, 2)) if self.wrap else env

    def checkpoints(self, folder: Path) -> PeriodicCheckpoints:
        return PeriodicCheckpoints(folder / "checkpoints", every_steps=self.every, boundary=self.boundary)

    def callbacks(self, folder: Path) -> list[Any]:
        evaluation = [
            EvalCallback(make_vec_env(self.environment, 1, seed=5), eval_freq=48, n_eval_episodes=2, verbose=0)
        ]
        return [self.checkpoints(folder), *(evaluation if self.evaluate else [])]


def both_kinds(name: str, **options: Any) -> dict[str, Case]:
    return {f"{name} in process": Case(**options), f"{name} with workers": Case(**options, workers=True)}


CASES: dict[str, Case] = {
    **both_kinds("ppo", algorithm=PPO, arguments=SMALL, evaluate=True),
    **both_kinds(
        "a2c", algorithm=A2C, environment="Pendulum-v1", arguments={"n_steps": 16, "use_sde": True}, wrap=True
    ),
    **both_kinds("trpo", algorithm=TRPO, arguments={"n_steps": 16, "batch_size": 16}),
    **both_kinds(
        "recurrent_ppo", algorithm=RecurrentPPO, policy="MlpLstmPolicy", arguments=SMALL | {"policy_kwargs": MEMORY}
    ),
    **both_kinds("maskable_ppo", algorithm=MaskablePPO, environment=Masked, arguments=SMALL, boundary=True),
    **both_kinds(
        "ppg", algorithm=PPG, arguments={"n_steps": 16, "batch_size": 16, "rollouts_per_phase": 4, "aux_epochs": 1}
    ),
}


def train(case: Case, folder: Path, steps: int | None = None, lock: Any = None) -> Any:
    """Train to the end: from the newest checkpoint in ``folder``, from the start where there is none."""
    try:
        checkpoint = CheckpointFolder(folder / "checkpoints").newest()
    except NoCheckpointError:
        checkpoint = None
    with contextlib.closing(case.env()) as env:
        if checkpoint is None:
            model = case.algorithm(case.policy, env, seed=3, **case.arguments)
        else:
            model = case.algorithm.load(checkpoint, env=env)
        model.set_logger(configure(folder, ["csv", "json"], resume=checkpoint is not None))
        callbacks = case.callbacks(folder) if lock is None else [lock.callback(), *case.callbacks(folder)]
        if checkpoint is None:
            model.learn(steps or case.steps, callback=callbacks)
        else:
            model.resume(callback=callbacks)
        model.logger.close()
    (folder / "digest.json").write_text(json.dumps(digest(model, folder)))
    return model


def digest(model: Any, folder: Path) -> dict[str, Any]:
    """Hashes of weights and optimiser, and the log without what the clock wrote into it."""
    weights, moments = hashlib.sha256(), hashlib.sha256()
    for name, value in sorted(model.policy.state_dict().items()):
        weights.update(name.encode() + value.detach().cpu().numpy().tobytes())
    for _, entry in sorted(model.policy.optimizer.state_dict()["state"].items()):
        for name, value in sorted(entry.items()):
            moments.update(name.encode() + torch.as_tensor(value).numpy().tobytes())
    lines = [json.loads(line) for line in (folder / "progress.json").read_text().splitlines()]
    rows = list(csv.DictReader((folder / "progress.csv").open()))
    return {
        "weights": weights.hexdigest(),
        "moments": moments.hexdigest(),
        "csv": [{key: value for key, value in row.items() if key not in CLOCK_COLUMNS} for row in rows],
        "json": [{key: value for key, value in line.items() if key not in CLOCK_COLUMNS} for line in lines],
        "steps": model.num_timesteps,
        "draw": [random.random(), float(np.random.random()), float(torch.rand(())), float(model.generator.random())],
    }


# ------------------------------------------------------------------------------------------------------ processes


class Starter:
    """Starts trainings in processes of their own, within milliseconds."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "faults.trainings"]
        root = Path(__file__).parents[1]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=environment
        )
        self._line()  # everything is imported

    def _line(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError("the process that starts trainings has ended")
        return line

    def run(self, case: str, folder: Path, seconds_to_live: float | None = None, **settings: Any) -> bool:
        """Train ``case`` in ``folder``; killed after ``seconds_to_live``. Whether it came to its end."""
        request = {"case": case, "folder": str(folder), **settings}
        self.process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        pid = int(self._line())
        if seconds_to_live is not None:
            time.sleep(seconds_to_live)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = int(self._line())
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise AssertionError((folder / "error.txt").read_text())
        return os.WIFEXITED(status)

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait(timeout=30)


@contextlib.contextmanager
def starter() -> Iterator[Starter]:
    started = Starter()
    try:
        yield started
    finally:
        started.close()


def warm_up() -> None:
    """Load everything before the forks, so that none of them waits."""
    from proximo.backends.fused import kernels  # noqa: F401
    from proximo.functional.advantages import compiled_scan

    torch.set_num_threads(1)
    compiled_scan()
    _import_optimizers()
    print("ready", flush=True)


def _serve() -> None:
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        work = partial(train, CASES[request["case"]], Path(request["folder"]), request.get("steps"))
        child = os.fork()
        if child == 0:
            _work_and_exit(work, Path(request["folder"]))
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def _import_optimizers() -> None:
    """The first step of an optimiser imports much of torch, which takes seconds."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.Adam([parameter]).step()


def _work_and_exit(work: Any, folder: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        work()
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve()
