"""rllte's logger: ``train.log``, ``eval.log``, and metrics that go to the library's log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proximo.data import Metrics
from proximo.training.table_log import TableLog


class Logger(TableLog):
    """Writes into ``log_dir``; without one only to the terminal."""

    def __init__(self, log_dir: Path | None = None, tag: str = "") -> None:
        """Arguments:
        log_dir: Folder of the log files; None writes to the terminal alone.
        tag: What lines on the terminal begin with.
        """
        super().__init__(log_dir, tag)
        self.metrics: dict[str, Any] = {}

    debug = error = TableLog.info

    def record(self, key: str, value: Any) -> None:
        """Keep a metric until the update is over."""
        self.metrics[key] = value

    def take(self) -> Metrics:
        """The metrics recorded since the last call."""
        metrics, self.metrics = self.metrics, {}
        return metrics

    def train(self, msg: Mapping[str, float]) -> None:
        """A line of training metrics."""
        self.write("train", msg)

    def eval(self, msg: Mapping[str, float]) -> None:
        """A line of evaluation metrics."""
        self.write("eval", msg)
