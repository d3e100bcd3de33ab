"""JSON and TOML of unknown origin, read within budgets, and texts of files in messages.

Lengths, depth and numbers are bounded before anything recurses over them, and every reader looks at each character a
fixed number of times.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

AGAIN = "the file is damaged or was changed: copy or download it again, or load an earlier checkpoint"
MAX_INTEGER_BITS = 1024
TOML_BYTES = 256 * 1024
LONGEST_TEXT = 160

_BRACKET = re.compile(r"[\[\]{}]")
# more than 32 parts of a dotted name of TOML, from its beginning on: no part is looked at twice
_LONG_NAME = re.compile(r"""(?<![\w.\\"'-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
_LONGEST_INTEGER = 309  # digits of 2**1024


# -------------------------------------------------------------------------------------------------------- in messages


def brief(value: Any) -> str:
    """A value of a file in a message: short texts and numbers as they are, others by their type.

    Nothing is walked: a value of a file may be nested without end, or of millions of parts.

    >>> brief("\\x1b[31m"), brief(10**400), brief([[]])
    ("'\\\\x1b[31m'", 'an integer of 1329 bits', 'a list')
    """
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return ascii(value) if len(value) <= 60 else f"{value[:60]!a}…"
    return f"a {type(value).__name__}"


def shown(names: Iterable[str]) -> str:
    """Names from a file in a form that is safe to print and not long."""
    listed = list(names)
    text = ", ".join(ascii(name[:200]) for name in listed[:64])
    return text if len(text) <= 200 and len(listed) <= 64 else f"{text[:200]}…"


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """A short text without control characters."""
    clean = "".join(character if character.isprintable() else " " for character in text[: 4 * longest])
    clean = " ".join(clean.split())
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


# -------------------------------------------------------------------------------------------------------------- lines


def bounded_lines(stream: IO[str], what: str, longest: int = Budgets.json_bytes) -> Iterator[str]:
    """The lines of a text file, none of them longer than ``longest`` characters."""
    while line := stream.readline(longest + 1):
        if len(line) > longest:
            raise ModelFileError(f"{what} has a line of more than {longest} characters")
        yield line


# --------------------------------------------------------------------------------------------------------------- JSON


def parse_json(data: bytes, budgets: Budgets, what: str = "the manifest", strict: bool = True) -> Json:
    """JSON of bounded length, depth and number of items; ``strict`` is without infinities and repeated keys."""
    if len(data) > budgets.json_bytes:
        raise ModelFileError(f"{what} holds {len(data)} bytes, the budget is {budgets.json_bytes}")

    def finite(text: str) -> float:
        number = float(text)
        if strict and not math.isfinite(number):
            raise ModelFileError(f"{what} holds the number {text[:40]}, which is not finite")
        return number

    def integer(text: str) -> int:
        if len(text) > _LONGEST_INTEGER + 1:
            raise ModelFileError(f"{what} holds an integer of {len(text)} digits")
        return int(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise ModelFileError(f"{what} repeats a key among {shown(key for key, _ in pairs)}")
        return table

    try:
        text = data.decode("utf-8")
        check_nesting(text, budgets, what)
        parsed: Json = json.loads(
            text, object_pairs_hook=unique, parse_constant=finite, parse_float=finite, parse_int=integer
        )
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{what} is not valid JSON ({error}); {AGAIN}") from error
    return parsed


def check_nesting(text: str, budgets: Budgets, what: str) -> None:
    """Count brackets and commas outside strings, before any parser recurses or allocates."""
    depth = items = 0
    for piece in _outside_strings(text):
        items += piece.count(",")
        for bracket in _BRACKET.finditer(piece):
            items += 1
            depth += 1 if bracket[0] in "[{" else -1
            if depth > budgets.json_depth:
                raise ModelFileError(f"{what} is nested deeper than {budgets.json_depth} levels")
            if items > budgets.json_items:
                break
        if items > budgets.json_items:
            raise ModelFileError(f"{what} lists more than {budgets.json_items} items")


def _outside_strings(text: str) -> Iterator[str]:
    """What lies between the strings of a JSON text."""
    position = 0
    while (opening := text.find('"', position)) >= 0:
        yield text[position:opening]
        position = _after_string(text, opening + 1)
    yield text[position:]


def _after_string(text: str, position: int) -> int:
    """Where a string that begins at ``position`` is over: behind its quote, or at the end of a text without one."""
    while (quote := text.find('"', position)) >= 0:
        before = text[position:quote]
        backslashes = len(before) - len(before.rstrip("\\"))
        position = quote + 1
        if backslashes % 2 == 0:
            return position
    return len(text)


def read_json(path: Path, what: str = "") -> Json:
    """The JSON in a file, which may hold NaN and infinity; no more is read of it than the budget allows."""
    with path.open("rb") as stream:
        return parse_json(stream.read(Budgets.json_bytes + 1), Budgets(), what or str(path), strict=False)


# --------------------------------------------------------------------------------------------------------------- TOML


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """The TOML in a file, of which no more is read than the budget; errors call it ``what``, else by its path."""
    with path.open("rb") as stream:
        return parse_toml(stream.read(TOML_BYTES + 1), what or str(path))


def parse_toml(data: bytes, what: str) -> dict[str, Any]:
    """TOML of bounded length and depth, with numbers of 64 bits and no dates."""
    if len(data) > TOML_BYTES:
        raise ModelFileError(f"{what} holds {len(data)} bytes, the budget is {TOML_BYTES}")
    try:
        text = data.decode("utf-8")
        if _LONG_NAME.search(text):  # tomllib takes time and memory by the square of a name's parts
            raise ModelFileError(f"{what} has a dotted name of more than {Budgets.json_depth} parts")
        table = tomllib.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{what} is not valid TOML ({printable(str(error))})") from error
    _check_plain(table, what)
    return table


def _check_plain(table: dict[str, Any], what: str, depth: int = Budgets.json_depth) -> None:
    level: list[Any] = [table]
    while level:  # level by level, so that depth costs no stack
        if depth == 0:
            raise ModelFileError(f"{what} is nested deeper than {Budgets.json_depth} levels")
        depth -= 1
        parts = [part for value in level for part in (value.values() if isinstance(value, dict) else value)]
        level = [part for part in parts if isinstance(part, dict | list)]
        for part in parts:
            if isinstance(part, int) and part.bit_length() > 64:
                raise ModelFileError(f"{what} holds {brief(part)}, more than TOML's 64 bits")
            if not isinstance(part, bool | int | float | str | dict | list):
                raise ModelFileError(f"{what} holds a {type(part).__name__}; expected texts, numbers, lists and tables")
