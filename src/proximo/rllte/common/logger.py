"""rllte's logger: ``train.log`` and ``eval.log``, tables as of csv, and lines on the terminal."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proximo.data import Metrics
from proximo.training.loggers import announce


class Logger:
    """Writes into ``log_dir``; without one only to the terminal. What is recorded goes to the library's log."""

    def __init__(self, log_dir: Path | None = None, tag: str = "") -> None:
        self.log_dir, self._prefix = log_dir, f"[{tag}] " if tag else ""
        self.metrics: dict[str, Any] = {}

    def record(self, key: str, value: Any) -> None:
        """Keep a metric until the update is over."""
        self.metrics[key] = value

    def take(self) -> Metrics:
        """The metrics recorded since the last call."""
        metrics, self.metrics = self.metrics, {}
        return metrics

    def info(self, msg: str) -> None:
        announce(self._prefix + msg)

    debug = error = info

    def train(self, msg: Mapping[str, float]) -> None:
        """One line of ``train.log``."""
        self._write("train", msg)

    def eval(self, msg: Mapping[str, float]) -> None:
        """One line of ``eval.log``."""
        self._write("eval", msg)

    def _write(self, kind: str, row: Mapping[str, float]) -> None:
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in row.items())
        self.info(f"{kind:5s} {shown}")
        if self.log_dir is None:
            return
        file = self.log_dir / f"{kind}.log"
        columns = sorted({*row, "episode_length", "episode_reward"})  # no episode may have ended yet
        is_new = not file.exists()
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns)
            if is_new:
                writer.writeheader()
            writer.writerow(row)
