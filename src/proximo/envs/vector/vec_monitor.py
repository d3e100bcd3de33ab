"""Episode statistics of vector environments that come without a ``Monitor`` inside."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proximo.data import Array, Info, Observation, StepArrays
from proximo.envs.vector.vec_env import StepTransform, VecEnv
from proximo.envs.wrappers.monitor import Monitor, ResultsWriter
from proximo.other_libraries import stands_for


class EpisodeTotals:
    """Return and length so far of the episode in each environment."""

    def __init__(self, num_envs: int) -> None:
        """Arguments:
        num_envs: Number of environments.
        """
        self.started_at = time.monotonic()
        self.returns = np.zeros(num_envs, np.float64)
        self.lengths = np.zeros(num_envs, np.int64)

    def clear(self) -> None:
        """Begin again in all environments."""
        self.returns[:] = 0.0
        self.lengths[:] = 0

    def add(self, rewards: Array, valid: Array | None) -> None:
        """Count a step; a row that only reset its environment does not count."""
        if valid is None:
            self.returns += rewards
            self.lengths += 1
        else:
            self.returns += rewards * valid
            self.lengths += valid

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "seconds": time.monotonic() - self.started_at,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on counting from what :meth:`state` gave; time goes on from then, as if nothing lay between."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self.started_at = time.monotonic() - float(state["seconds"])

    def take(self, index: int) -> Info:
        """The ended episode's ``{"r", "l", "t"}``, and zero for the next."""
        episode = {
            "r": round(float(self.returns[index]), 6),
            "l": int(self.lengths[index]),
            "t": round(time.monotonic() - self.started_at, 6),
        }
        self.returns[index] = 0.0
        self.lengths[index] = 0
        return episode


@stands_for("stable_baselines3.common.vec_env.vec_monitor", "VecMonitor")
class VecMonitor(StepTransform):
    """What :class:`Monitor` does, one level up: ``infos[i]["episode"]`` at each end, and a CSV file if asked."""

    def __init__(self, venv: VecEnv, filename: str | Path | None = None, info_keywords: tuple[str, ...] = ()) -> None:
        """Arguments:
        venv: The vector environment that is wrapped.
        filename: A CSV file for the episodes, which gets the ending monitor.csv; None writes none.
        info_keywords: Keys of the last info to record as well.
        """
        super().__init__(venv)
        if any(venv.env_is_wrapped(Monitor)):
            warnings.warn(
                "the environments already have a Monitor; VecMonitor replaces its statistics by its own", stacklevel=2
            )
        self.info_keywords = info_keywords
        self.episode_count = 0
        self.totals = EpisodeTotals(self.num_envs)
        self.t_start = time.time()
        self.results_writer: ResultsWriter | None = None
        if filename:
            spec = getattr(venv, "spec", None)
            header: dict[str, float | str] = {"t_start": self.t_start, "env_id": str(spec and spec.id)}
            self.results_writer = ResultsWriter(filename, header=header, extra_keys=info_keywords)

    @property
    def episode_returns(self) -> Array:
        """The return so far of each environment's episode."""
        return self.totals.returns

    @property
    def episode_lengths(self) -> Array:
        """The steps so far of each environment's episode."""
        return self.totals.lengths

    def reset(self) -> Observation:
        self.totals.clear()
        return self.venv.reset()

    def transform(self, step: StepArrays) -> StepArrays:
        self.totals.add(step.rewards, step.valid)
        for index, info in step.infos.items():
            episode = self.totals.take(index)
            if step.valid is not None and not step.valid[index]:
                continue  # its environment failed: this is the end of no episode
            episode.update({key: info[key] for key in self.info_keywords})
            info["episode"] = episode
            self.episode_count += 1
            if self.results_writer is not None:
                self.results_writer.write_row(episode)
        return step

    rows_in_state = (("totals", "returns"), ("totals", "lengths"))

    def own_state(self) -> dict[str, Any]:
        state = {"totals": self.totals.state(), "episode_count": self.episode_count}
        return state if self.results_writer is None else {**state, "file": self.results_writer.place()}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        self.totals.load_state(state["totals"])
        self.t_start = time.time() - float(state["totals"]["seconds"])
        self.episode_count = int(state["episode_count"])
        if self.results_writer is not None and "file" in state:
            self.results_writer.restore(state["file"])

    def close(self) -> None:
        if self.results_writer is not None:
            self.results_writer.close()
        super().close()
