"""A preset that is trained with several seeds, rung after rung: a trial of a study, or the confirmation of one."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proximo.errors import ModelFileError
from proximo.files.atomic import write_whole
from proximo.files.plain_text import read_json
from proximo.functional.statistics import Interval, mean_interval
from proximo.training.run_folder import PRESET_FILE, RunFolder, RunFolderError, to_toml
from proximo.training.run_lock import RunLock, living_holder
from proximo.zoo import Preset

_SCORES = "scores.json"


@dataclass
class Job:
    """A folder with the preset, a run folder per seed, and the scores by rung and seed; one process works on it."""

    folder: Path
    number: int
    seeds: tuple[int, ...]
    rungs: tuple[int, ...]  # steps
    is_confirmation: bool = False
    scores: dict[int, dict[int, float]] = field(default_factory=dict)
    steps: dict[int, dict[int, int]] = field(default_factory=dict)  # a rung ends with the rollout that reaches it
    lock: RunLock | None = None

    @property
    def preset_file(self) -> Path:
        return self.folder / PRESET_FILE

    @property
    def name(self) -> str:
        return f"{self.number}{' again' if self.is_confirmation else ''}"

    @property
    def rung(self) -> int:
        """The rung that it is on: the first that not all seeds have reached."""
        done = [
            rung for rung in range(len(self.rungs)) if all(seed in self.scores.get(rung, {}) for seed in self.seeds)
        ]
        return len(done)

    @property
    def is_trained(self) -> bool:
        return self.rung == len(self.rungs)

    def waiting_seeds(self) -> list[int]:
        return (
            [seed for seed in self.seeds if seed not in self.scores.get(self.rung, {})] if not self.is_trained else []
        )

    def values(self, rung: int) -> list[float]:
        return [self.scores[rung][seed] for seed in self.seeds if seed in self.scores.get(rung, {})]

    def mean(self, rung: int) -> float:
        return float(np.mean(self.values(rung)))

    def interval(self) -> Interval:
        """Of the mean over seeds after the last rung."""
        return mean_interval(self.values(len(self.rungs) - 1))

    def is_free(self) -> bool:
        """Whether no living process works on it, nor on a run of it."""
        folders = [self.folder, *(path.parent for path in self.folder.glob("*/config.toml"))]
        return all(living_holder(folder) is None for folder in folders)

    def write_preset(self, table: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.preset_file, to_toml(table))

    def claim(self) -> None:
        """Work on it until :meth:`release`."""
        self.lock = RunLock(self.folder).acquire()
        self.read()

    def release(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def read(self) -> Job:
        """Take over the scores that are written down."""
        try:
            table: Any = read_json(self.folder / _SCORES, "it")
            rows = [(int(row["rung"]), int(row["seed"]), float(row["score"]), int(row["steps"])) for row in table]
            if any(rung not in range(len(self.rungs)) for rung, *_ in rows):
                raise ValueError(f"it has a rung that is none of the {len(self.rungs)}")
        except FileNotFoundError:
            rows = []
        except (ModelFileError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunFolderError(f"{self.folder / _SCORES} is damaged ({error!r}); remove it") from error
        self.scores, self.steps = {}, {}
        for rung, seed, score, steps in rows:
            self._keep(rung, seed, score, steps)
        return self

    def record(self, seed: int, score: float, steps: int) -> None:
        """A seed has reached the rung that the job is on."""
        self._keep(self.rung, seed, score, steps)
        table = [
            {"rung": rung, "seed": seed, "score": score, "steps": self.steps[rung][seed]}
            for rung, row in self.scores.items()
            for seed, score in row.items()
        ]
        write_whole(self.folder / _SCORES, json.dumps(table, indent=1) + "\n")

    def _keep(self, rung: int, seed: int, score: float, steps: int) -> None:
        # of rewards that are not finite: no mean of such a score, and no comparison with it, would say anything
        self.scores.setdefault(rung, {})[seed] = score if math.isfinite(score) else -math.inf
        self.steps.setdefault(rung, {})[seed] = steps

    def run_of(self, seed: int) -> RunFolder | None:
        """The run folder of a seed, if it has begun."""
        folders = [RunFolder(path.parent) for path in sorted(self.folder.glob("*/config.toml"))]
        found = [folder for folder in folders if folder.read_config().get("seed") == seed]
        return found[-1] if found else None

    def result_of(self, seed: int) -> tuple[float, int] | None:
        """The score of a seed on this rung and its steps, if its run has reached it."""
        folder = self.run_of(seed)
        result = None if folder is None else folder.read_result()
        if result is None or result["steps"] < self.rungs[self.rung] or not result.get("evaluation"):
            return None
        return float(np.mean(result["evaluation"]["episode_rewards"])), int(result["steps"])

    def steps_trained(self) -> int:
        """Of all its runs, as their metrics count them."""
        return sum(_last_step(path) for path in self.folder.glob("*/progress.jsonl"))

    def steps_from_scratch(self) -> int:
        """What the same scores would have cost if every rung had begun from nothing."""
        return sum(steps for row in self.steps.values() for steps in row.values())


def _last_step(path: Path) -> int:
    """Of the last line of metrics that is whole: a process that was killed may leave half a line behind it."""
    for line in reversed(path.read_text(encoding="utf-8", errors="replace").splitlines()):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(steps := row.get("time/total_timesteps"), int):
            return steps
    return 0


def preset_table(env: str, algo: str, preset: Preset) -> dict[str, Any]:
    """A preset as a file that `proximo train --preset` takes alone."""
    return {"env": env, "algo": algo, **preset.as_row()}
