"""Measure what checkpoints cost at the default interval; writes ``results/checkpoints.{json,md}``.

python -m benchmarks.run_checkpoints         # about two minutes
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.run import RESULTS, as_markdown, show
from proximo import PPO, make_vec_env
from proximo.envs import SubprocVecEnv, VecFrameStack, VecNormalize, make_atari_env
from proximo.training.checkpoints import PeriodicCheckpoints

MOST = 0.01  # of the wall time


@dataclass(frozen=True)
class Row:
    name: str
    env_id: str
    n_envs: int
    steps: int
    policy: str = "MlpPolicy"
    arguments: dict[str, Any] = field(default_factory=dict)


ROWS = (
    Row("CartPole-v1, 8 envs, rollouts of 32 steps", "CartPole-v1", 8, 200_000, arguments={"n_steps": 32}),
    Row("HalfCheetah-v5, 8 envs in workers, normalised", "HalfCheetah-v5", 8, 100_000),
    Row("Pong, CnnPolicy, 8 envs", "PongNoFrameskip-v4", 8, 4_096, "CnnPolicy", {"n_steps": 128, "batch_size": 256}),
)


class TimedCheckpoints(PeriodicCheckpoints):
    """Knows how long the training loop waited for it beside the saving."""

    asking = 0.0

    def between_iterations(self) -> bool:
        start, saved = time.perf_counter(), self.saved_at
        try:
            return super().between_iterations()
        finally:
            if self.saved_at == saved:
                self.asking += time.perf_counter() - start


def make_env(row: Row) -> Any:
    if row.policy == "CnnPolicy":
        return VecFrameStack(make_atari_env(row.env_id, row.n_envs, seed=0), 4)
    if row.env_id == "HalfCheetah-v5":
        return VecNormalize(make_vec_env(row.env_id, row.n_envs, seed=0, vec_env_cls=SubprocVecEnv))
    return make_vec_env(row.env_id, row.n_envs, seed=0)


def measure(row: Row) -> dict[str, Any]:
    env = make_env(row)
    model = PPO(row.policy, env, seed=0, device="cpu", **row.arguments)
    model.learn(model.n_steps * row.n_envs)  # compiles kernels where nothing is cached
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = TimedCheckpoints(folder)
        start = time.perf_counter()
        model.learn(row.steps, callback=checkpoints)
        seconds = time.perf_counter() - start
        checkpoints.save()  # another one, of a model in the middle of its training
        size = max(path.stat().st_size for path in Path(folder).glob("*.zip"))
    env.close()
    share = checkpoints.asking / seconds + checkpoints.seconds_per_save / checkpoints.every_seconds
    return {
        "work": row.name,
        "seconds_per_save": round(checkpoints.seconds_per_save, 4),
        "megabytes": round(size / 1e6, 2),
        "every_seconds": checkpoints.every_seconds,
        "share": share,
    }


def main() -> None:
    results = [measure(row) for row in ROWS]
    rows = [["work", "one save", "file", "share of the wall time", "needed"]] + [
        [
            row["work"],
            f"{1000 * row['seconds_per_save']:.0f} ms",
            f"{row['megabytes']} MB",
            f"{row['share']:.4%}",
            f"< {MOST:.0%}",
        ]
        for row in results
    ]
    show(Console(), "cost of checkpoints every ten minutes", rows)
    machine = describe_machine()
    (RESULTS / "checkpoints.json").write_text(json.dumps({"machine": machine, "rows": results}, indent=2) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    (RESULTS / "checkpoints.md").write_text(f"""# Cost of checkpoints

At the default interval of ten minutes. The share counts the saving itself and the question after every iteration
whether one is due; saving grows the interval where it would take more than 1 % of the time.
"needed" is what this project asks of itself.

{as_markdown(rows)}

Measured with `python -m benchmarks.run_checkpoints` on: {described}.
""")


if __name__ == "__main__":
    main()
