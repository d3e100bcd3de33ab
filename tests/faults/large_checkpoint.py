"""A checkpoint of PPG in the middle of a phase, written and read in a process of its own.

``FOLDER ROLLOUTS STEPS ENVIRONMENTS``: fills a phase, saves it, verifies the file and loads it. Prints the bytes of
the largest tensor, and by how many bytes the peak of the memory rose above what was in use before each of the three.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from proximo import PPG
from proximo.envs import VecEnv
from proximo.training.checkpoints import CheckpointFolder

ROOM = 2**40


class Pictures(VecEnv):
    """64×64×3 pictures of many environments that nobody steps."""

    def __init__(self, environments: int) -> None:
        super().__init__(environments, gym.spaces.Box(0, 255, (3, 64, 64), np.uint8), gym.spaces.Discrete(15))

    def reset(self) -> Any:
        return np.zeros((self.num_envs, 3, 64, 64), np.uint8)

    def step_async(self, actions: Any) -> None: ...

    def step_wait(self) -> Any: ...

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> Any:
        if attr_name == "render_mode":
            return [None] * self.num_envs
        raise AttributeError(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> Any: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def environment_states(self) -> list[Any]:
        return [None] * self.num_envs

    def set_environment_states(self, states: Any) -> None: ...

    def has_state(self) -> bool:
        return True


def reset_peak() -> int:
    """Begin a new measurement of the peak; the bytes in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def digest(model: Any) -> str:
    found = hashlib.sha256()
    for name, memory in sorted(model.learner.phase._memories().items()):
        found.update(name.encode())
        for row in memory:
            found.update(np.ascontiguousarray(row).tobytes())
    return found.hexdigest()


def main() -> None:
    folder = Path(sys.argv[1])
    rollouts, steps, environments = map(int, sys.argv[2:5])
    path = folder / "model_0_steps.zip"
    torch.set_num_threads(1)
    env = Pictures(environments)
    model = PPG("CnnPolicy", env, n_steps=steps, batch_size=steps * environments, rollouts_per_phase=rollouts, seed=1)
    model._setup_learn(10**9)
    phase = model.learner.phase
    chance = np.random.default_rng(0)
    for row in phase.observations:
        row[:] = np.frombuffer(chance.bytes(row.size), np.uint8).reshape(row.shape)
    phase.returns[:] = chance.normal(size=phase.returns.shape)
    phase.stored = rollouts
    before = digest(model)

    bases = [reset_peak()]
    model.save_checkpoint(path)
    peaks = [status("VmHWM")]

    bases.append(reset_peak())
    assert CheckpointFolder(folder, max_bytes=ROOM).newest() == path
    peaks.append(status("VmHWM"))

    phase.observations.fill(1)  # the memory of the training that goes on is part of the base
    bases.append(reset_peak())
    model = PPG.load(path, env=env, max_bytes=ROOM)
    model.learner.phase = phase
    model.learn(0, reset_num_timesteps=False)
    peaks.append(status("VmHWM"))

    assert digest(model) == before
    print(phase.observations.nbytes, *(peak - base for peak, base in zip(peaks, bases, strict=True)))


if __name__ == "__main__":
    main()
