"""What a person at the terminal sees: the consoles, warnings and errors as one line each, live progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from rich.progress import Progress


@cache
def output() -> Console:
    """Where results go; lines are wrapped for a terminal, and whole elsewhere."""
    console = Console(highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


@cache
def errors() -> Console:
    console = Console(stderr=True, highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


def show_error(message: str) -> None:
    errors().print(f"[bold red]error:[/] {escape(message)}")


def show_warnings_as_lines() -> None:
    """Print Python's warnings as a line each, without file names and source code, and each text once."""
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = str(message).removeprefix("\x1b[33mWARN: ").removesuffix("\x1b[0m")  # gymnasium colours its own
        if text not in shown:
            shown.add(text)
            errors().print(f"[yellow]warning:[/] {escape(text)}")

    warnings.showwarning = show


@contextmanager
def counting(description: str, total: int, unit: str) -> Iterator[Counter]:
    """A live bar that counts to ``total``; silent where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=output(),
        transient=True,
        expand=True,
        disable=not output().is_terminal,
    )
    with progress:
        yield Counter(progress, progress.add_task(description, total=total))


class Counter:
    """Advances a live bar."""

    def __init__(self, progress: Progress, task: int) -> None:
        self._progress = progress
        self._task = task

    def add(self, amount: int) -> None:
        if amount:
            self._progress.advance(self._task, amount)  # type: ignore[arg-type]


def shown_path(path: os.PathLike[str] | str) -> str:
    """A path as short as it can be written from here."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith("..") else relative
