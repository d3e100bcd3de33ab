"""The returns that presets were measured to reach."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """The mean over seeds of the evaluation after the training.

    >>> print(Measured(-165.2, 3)), print(Measured(2541.0, 1))
    -165 (3 seeds)
    2541 (1 seed)
    (None, None)
    """

    mean: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:.0f} ({self.seeds} seed{'s' if self.seeds > 1 else ''})"


def measured_return(algo: str, name: str) -> Measured | None:
    """What the preset ``name`` of an algorithm reached; None where nothing was measured."""
    row = _table().get(algo, {}).get(name)
    return None if row is None else Measured(**row)


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads((resources.files(__package__) / "measured.toml").read_text(encoding="utf-8"))
