"""A training of one-step episodes with every kind of record, and the sizes of its checkpoints."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from proximo import PPO, make_vec_env
from proximo.envs import VecMonitor
from proximo.files.archive import read_archive
from proximo.training.callbacks import EvalCallback
from proximo.training.checkpoints import PeriodicCheckpoints
from proximo.training.loggers import configure


class Blink(gym.Env[Any, Any]):
    """Every step is an episode."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(self.np_random.normal()), True, False, {}

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def make_env(folder, environments):
    return VecMonitor(make_vec_env(Blink, environments, seed=1, monitor_dir=folder), str(folder / "all"))


def train_episodes(folder, environments, steps, save_at):
    """Train one-step episodes with every kind of record; the sizes of the checkpoints by their steps."""
    callbacks = [
        PeriodicCheckpoints(folder / "c", every_steps=save_at, keep_last=100, keep_best=False),
        EvalCallback(
            make_vec_env(Blink, 1), eval_freq=64, n_eval_episodes=30, log_path=str(folder), verbose=0, warn=False
        ),
    ]
    with pytest.warns(UserWarning, match="already have a Monitor"):
        env = make_env(folder, environments)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64 * environments, n_epochs=1, seed=3)
    model.set_logger(configure(folder, ["csv", "json", "log"]))
    model.learn(steps, callback=callbacks)
    model.logger.close()
    return {int(path.name.split("_")[1]): path for path in (folder / "c").glob("model_*")}, model


def check_sizes(files, first, last):
    """Compare two checkpoints: members to the byte, the manifest but for the digits of its counters."""
    small, large = files[first], files[last]
    tensors = [
        {
            group: {name: tuple(tensor.shape) for name, tensor in part.items()}
            for group, part in read_archive(path)[1].items()
        }
        for path in (small, large)
    ]
    assert tensors[0] == tensors[1]
    assert abs(small.stat().st_size - large.stat().st_size) < 0.01 * small.stat().st_size
    return small.stat().st_size, large.stat().st_size
