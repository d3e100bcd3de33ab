"""What a person at the terminal sees: the consoles, warnings and errors as one line each, live progress."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from proximo import compilation
from proximo.training.progress import ProgressDisplay

if TYPE_CHECKING:
    from rich.table import Table


WIDTH_OF_FILES = 1000  # characters in a line of what is no terminal


class PlainConsole(Console):
    """A console whose texts have no say over the terminal: only rich's own styles and movements are its codes.

    Texts quote files and names of files, and what a stranger wrote there must not clear the screen or fake a line.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_without_codes(segment.text))


def _without_codes(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)


@cache
def output() -> Console:
    """Where results go; lines are wrapped for a terminal, and whole elsewhere."""
    return _whole_elsewhere(PlainConsole(highlight=False))


@cache
def errors() -> Console:
    return _whole_elsewhere(PlainConsole(stderr=True, highlight=False))


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
    errors().print(f"[bold red]error:[/] {escape(message)}")
    for note in notes:
        errors().print(note, markup=False, soft_wrap=True)


_shown_warnings: list[str] = []
_warning_listeners: list[Callable[[str], object]] = []


@contextmanager
def listening_to_warnings(listener: Callable[[str], object]) -> Iterator[None]:
    """Tell ``listener`` of each warning that this command has shown, and shows while the block runs."""
    for text in _shown_warnings:
        listener(text)
    _warning_listeners.append(listener)
    try:
        yield
    finally:
        _warning_listeners.remove(listener)


def show_compiling() -> None:
    """Say that kernels are compiled, which takes seconds, also while what others print is kept away."""
    compilation.announce = lambda message: output().print(message, markup=False)


def show_warnings_as_lines() -> None:
    """Print Python's warnings as a line each, without file names and source code, and each text once."""
    _shown_warnings.clear()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = str(message).removeprefix("\x1b[33mWARN: ").removesuffix("\x1b[0m")  # gymnasium colours its own
        if text not in _shown_warnings:
            _shown_warnings.append(text)
            # on a terminal through the console of the live display, which puts the line above it
            console = output() if output().is_terminal and errors().is_terminal else errors()
            console.print(f"[yellow]warning:[/] {escape(text)}")
            for listener in _warning_listeners:
                listener(text)

    warnings.showwarning = show


class ForeignOutput:
    """What libraries and environments have printed, instead of onto the terminal."""

    LONGEST = 1_000_000  # bytes that are kept
    LINES_OF_AN_ERROR = 10

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._saved = 0  # bytes

    def save(self, path: Path) -> None:
        """Add to a file what is new; nothing printed, no file."""
        if text := self._text_from(self._saved):
            self._saved += len(text)
            with path.open("ab") as stream:
                stream.write(text)

    def last_lines(self) -> str:
        return "\n".join(self._text_from(0).decode("utf-8", "replace").splitlines()[-self.LINES_OF_AN_ERROR :])

    def _text_from(self, start: int) -> bytes:
        if self._file is None:
            return b""
        end = os.fstat(self._file.fileno()).st_size
        # pread: the position is shared with those who print
        return os.pread(self._file.fileno(), min(end - start, self.LONGEST), max(start, end - self.LONGEST))


_debugging = [False]


def show_everything(debug: bool) -> None:
    """Whether what libraries print reaches the user (``--debug``)."""
    _debugging[0] = debug


def is_debugging() -> bool:
    return _debugging[0]


@contextmanager
def quiet_libraries() -> Iterator[ForeignOutput]:
    """Only the consoles' lines reach the user; what else is printed, by C code and worker processes too, is kept.

    PyBullet prints a line per environment, MuJoCo and ALE greet and warn; over a live display that is a mess. An error
    gets the last of these lines as a note: they may say what went wrong.
    """
    if is_debugging():
        yield ForeignOutput(None)
        return
    with tempfile.TemporaryFile() as file, ExitStack() as diversions:
        foreign = ForeignOutput(file)
        for console, stream, number in ((output(), sys.stdout, 1), (errors(), sys.stderr, 2)):
            diversions.enter_context(_diverted(console, stream, number, file))
        try:
            yield foreign
        except Exception as error:
            if lines := foreign.last_lines():
                error.add_note(f"printed before that:\n{lines}")
            raise


@contextmanager
def _diverted(console: Console, stream: TextIO, number: int, file: IO[bytes]) -> Iterator[None]:
    """The process's stream ``number`` goes to ``file``, the console to where that stream went."""
    stream.flush()
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    if own := _is_on(stream, number):  # under a test the stream may lead elsewhere, and the console with it
        raw = os.fdopen(os.dup(kept), "wb", buffering=0)
        console.file = io.TextIOWrapper(raw, encoding=stream.encoding, errors="backslashreplace", write_through=True)
    try:
        yield
    finally:
        if not stream.closed:
            stream.flush()
        os.dup2(kept, number)
        os.close(kept)
        if own:
            console.file.close()
            console.file = None  # type: ignore[assignment]  # rich: the standard stream of the moment


def _is_on(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):  # a stream in memory
        return False


def counting(description: str, total: int, unit: str) -> ProgressDisplay:
    """A live bar that counts to ``total`` and then vanishes; silent where there is no terminal."""
    return ProgressDisplay(total, description, output(), unit=unit, transient=True, takes_prints=False)


def shown_path(path: os.PathLike[str] | str) -> str:
    """A path as short as it can be written from here."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith("..") else relative
