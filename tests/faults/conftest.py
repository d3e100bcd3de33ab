"""Counts what the fault tests tried and what passed, and shows one table of it at the end of the run."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest


class Tally:
    """Tried and passed, by kind of fault."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    @contextmanager
    def case(self, kind: str, count: int = 1) -> Iterator[None]:
        """One trial (or ``count`` of them); it has passed when nothing is raised inside."""
        self.tried[kind] += count
        yield
        self.passed[kind] += count

    def rows(self) -> dict[str, str]:
        date = datetime.datetime.now(datetime.UTC).date()
        return {kind: f"| {kind} | {self.tried[kind]:,} | {self.passed[kind]:,} | {date} |" for kind in self.tried}

    def write(self, path: Path) -> None:
        """Write the table; kinds that were not tried this time keep the row they have, with its date."""
        written = path.read_text() if path.exists() else "# Faults tried and passed\n\n"
        kept = {line.split("|")[1].strip(): line for line in written.splitlines() if line.startswith("| ")}
        kept.pop("fault", None)
        above = written.partition("| fault")[0]
        path.write_text(f"{above}{as_table({**kept, **self.rows()})}\n")


def as_table(rows: Mapping[str, str]) -> str:
    return "\n".join(["| fault | tried | passed | date |", "|---|---|---|---|", *(rows[kind] for kind in sorted(rows))])


_TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TALLY] = Tally()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    return request.config.stash[_TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash[_TALLY]
    if tally.tried:
        terminalreporter.section("faults tried and passed")
        terminalreporter.write_line(as_table(tally.rows()))
        if path := os.environ.get("PROXIMO_FAULT_TABLE"):
            tally.write(Path(path))
