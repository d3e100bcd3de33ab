"""What a person at the terminal sees: the consoles, warnings and errors as one line each, live progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.markup import escape

from proximo.training.progress import ProgressDisplay

if TYPE_CHECKING:
    from rich.table import Table


WIDTH_OF_FILES = 1000  # characters in a line of what is no terminal


@cache
def output() -> Console:
    """Where results go; lines are wrapped for a terminal, and whole elsewhere."""
    return _whole_elsewhere(Console(highlight=False))


@cache
def errors() -> Console:
    return _whole_elsewhere(Console(stderr=True, highlight=False))


def _whole_elsewhere(console: Console) -> Console:
    if not console.is_terminal:
        console.soft_wrap = True
        console.width = WIDTH_OF_FILES  # tables cut their cells to it
    return console


def print_table(table: Table) -> None:
    """Print a table; where the terminal is too narrow for it, as lines of text, so that no number is cut."""
    console = output()
    unlimited = console.options.update(max_width=WIDTH_OF_FILES)
    if console.measure(table, options=unlimited).maximum <= console.width:
        console.print(table)
    else:
        console.print(*_as_lines(table), sep="\n")


def _as_lines(table: Table) -> Iterator[str]:
    yield f"[bold]{table.title}[/]"
    names = [column.header for column in table.columns[1:]]
    for title, *cells in zip(*(column.cells for column in table.columns), strict=True):
        yield f"{title}: " + ", ".join(f"{name} {cell}" for name, cell in zip(names, cells, strict=True) if cell)


def show_error(message: str, *notes: str) -> None:
    """An error as one line, and what else there is to say about it below."""
    errors().print(f"[bold red]error:[/] {escape(_without_codes(message))}")
    for note in notes:
        errors().print(note, markup=False, soft_wrap=True)


def _without_codes(text: str) -> str:
    """A message may quote a file, and what a file says must not reach the terminal's own language."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


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
            errors().print(f"[yellow]warning:[/] {escape(_without_codes(text))}")

    warnings.showwarning = show


def counting(description: str, total: int, unit: str) -> ProgressDisplay:
    """A live bar that counts to ``total`` and then vanishes; silent where there is no terminal."""
    return ProgressDisplay(total, description, output(), unit=unit, transient=True)


def shown_path(path: os.PathLike[str] | str) -> str:
    """A path as short as it can be written from here."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith("..") else relative
