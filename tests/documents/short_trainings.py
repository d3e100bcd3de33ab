"""Short trainings of every algorithm, for the names that they log."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import proximo
from proximo.envs import make_vec_env
from proximo.envs.testing.environments import InvalidActionEnvDiscrete
from proximo.training.loggers import configure

SPECIAL: dict[str, dict[str, Any]] = {
    "PPG": {"rollouts_per_phase": 2},
    "RecurrentPPO": {"policy_kwargs": {"lstm_hidden_size": 8}},
}


def logged_names(algorithm: str, folder: Path) -> set[str]:
    """What 256 steps log; continuous actions, so that their deviation is logged too, but for masks."""
    task: Any = InvalidActionEnvDiscrete if algorithm == "MaskablePPO" else "Pendulum-v1"
    env = make_vec_env(task, n_envs=2, seed=0)
    batch = {} if algorithm == "A2C" else {"batch_size": 64}
    policy = "MlpLstmPolicy" if algorithm == "RecurrentPPO" else "MlpPolicy"
    model = getattr(proximo, algorithm)(
        policy, env, n_steps=200 if algorithm == "A2C" else 64, seed=0, **batch, **SPECIAL.get(algorithm, {})
    )
    model.set_logger(configure(folder, ["csv"]))
    model.learn(512, log_interval=1)
    with (folder / "progress.csv").open() as file:
        return set(next(csv.reader(file)))
