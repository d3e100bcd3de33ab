"""The evaluations of a training: one line each in a file that only grows, and the arrays that are made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proximo.data import Array
from proximo.files.append_only import cut_back, place_in
from proximo.files.atomic import replacing, write_whole

KEYS = ("timesteps", "results", "ep_lengths", "successes")


class EvaluationHistory:
    """``{path}.jsonl`` with a line per evaluation, and ``{path}.npz``, the arrays that Stable-Baselines3 has."""

    def __init__(self, path: str) -> None:
        """Arguments:
        path: The files without their endings .jsonl and .npz.
        """
        self.lines, self.arrays = Path(f"{path}.jsonl"), Path(f"{path}.npz")

    def add(self, table: Mapping[str, Sequence[Any]]) -> None:
        """Append the last row of the columns, and write the arrays again; the first row begins a new file."""
        row = {key: table[key][-1] for key in KEYS if table[key]}
        with self.lines.open("a" if len(table["timesteps"]) > 1 else "w", encoding="utf-8") as file:
            file.write(json.dumps(row, default=_plain) + "\n")
        self._write_arrays(table)

    def place(self, count: int) -> dict[str, Any]:
        """Where the file ends after ``count`` evaluations."""
        if not count:
            return {"count": 0}
        with self.lines.open("r+", encoding="utf-8") as file:
            return {"count": count, **place_in(file)}

    def restore(self, place: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The columns as they were, with what came later cut off."""
        table: dict[str, list[Any]] = {key: [] for key in KEYS}
        if not place["count"]:
            return table
        with self.lines.open("a+", encoding="utf-8") as file:
            cut_back(file, place)
            file.seek(0)
            for line in file:
                for key, value in json.loads(line).items():
                    table[key].append(value)
        self._write_arrays(table)
        return table

    def rewrite(self, table: Mapping[str, Sequence[Any]]) -> None:
        """Begin the file with these rows: those of a checkpoint of version 0.1.0, which held them all."""
        rows = [{key: table[key][row] for key in KEYS if table[key]} for row in range(len(table["timesteps"]))]
        write_whole(self.lines, "".join(json.dumps(row, default=_plain) + "\n" for row in rows))

    def _write_arrays(self, table: Mapping[str, Sequence[Any]]) -> None:
        arrays = {"timesteps": np.array(table["timesteps"])}
        arrays |= {key: _rectangle(table[key]) for key in KEYS[1:] if table[key]}
        # whoever reads while we write finds the previous evaluations, not half a file
        with replacing(self.arrays) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which JSON gives back to the last bit."""
    return value.item()


def _rectangle(rows: Sequence[Sequence[Any]]) -> Array:
    """Rows as one array; where they differ in length, the shorter ones end in NaN."""
    longest = max(map(len, rows))
    if all(len(row) == longest for row in rows):
        return np.array(rows)
    return np.array([[float(value) for value in row] + [np.nan] * (longest - len(row)) for row in rows])
