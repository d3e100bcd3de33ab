"""Rows of a run as files of their own, beside the library's log: ``train.log``, ``eval.log``, each a csv table."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from proximo.training.loggers import announce


class TableLog:
    """Writes rows into ``folder`` and onto the terminal; without a folder only there."""

    columns = ("episode_length", "episode_reward")  # of every table: no episode may have ended when it begins

    def __init__(self, folder: Path | None = None, tag: str = "") -> None:
        self.folder, self._prefix = folder, f"[{tag}] " if tag else ""

    def info(self, msg: str) -> None:
        """A line on the terminal."""
        announce(self._prefix + msg)

    def write(self, name: str, row: Mapping[str, float]) -> None:
        """One row of ``{name}.log``."""
        shown = ", ".join(f"{key.replace('_', ' ')} {value:.6g}" for key, value in row.items())
        self.info(f"{name:5s} {shown}")
        if self.folder is None:
            return
        file = self.folder / f"{name}.log"
        is_new = not file.exists()
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, sorted({*row, *self.columns}))
            if is_new:
                writer.writeheader()
            writer.writerow(row)
