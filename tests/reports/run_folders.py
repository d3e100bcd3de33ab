"""Run folders with known numbers, for reports and comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

CONFIG = """\
env = {env}
algo = "{algo}"
seed = {seed}
preset = "default"
n_envs = 1
n_timesteps = 1000
gamma = {gamma}
"""
HEADER = ("time/total_timesteps", "rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "train/loss")


def write_run(
    path: Path,
    returns: list[float],
    *,
    env: str = "CartPole-v1",
    algo: str = "ppo",
    seed: int = 1,
    gamma: float = 0.9,
    evaluations: list[list[float]] | None = None,
    journal: list[dict[str, object]] | None = None,
    column: str = "",
) -> Path:
    """A run with a row of progress every 100 steps, and an evaluation every 200."""
    path.mkdir(parents=True)
    quoted = json.dumps(env)
    (path / "config.toml").write_text(CONFIG.format(env=quoted, algo=algo, seed=seed, gamma=gamma))
    header = [*HEADER, *([column] if column else [])]
    rows = [
        [100 * (index + 1), value, 2 * value, 1234, "nan" if index else 0.25, *([7.0] if column else [])]
        for index, value in enumerate(returns)
    ]
    lines = [",".join(f'"{name}"' for name in header), *(",".join(map(str, row)) for row in rows)]
    (path / "progress.csv").write_text("\n".join(lines) + "\n")
    if evaluations is not None:
        steps = 200 * np.arange(1, len(evaluations) + 1)
        np.savez(path / "evaluations.npz", timesteps=steps, results=evaluations, ep_lengths=evaluations)
    if journal is not None:
        (path / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in journal))
    return path
