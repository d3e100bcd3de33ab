"""Reading takes work in proportion to the length of what is read: counted, not timed."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.encoding import decode
from proximo.files.known_values import known_value
from proximo.files.normalizer_file import parse_normalizer
from proximo.files.plain_text import check_nesting, parse_json, parse_toml
from proximo.files.restricted_pickle import read_pickle

MOST = 2.3  # times the operations for twice the length


class CountedText(str):
    """A text that counts the characters that are looked at for a quote, or copied."""

    __slots__ = ("looked_at",)

    looked_at: list[int]

    def find(self, part: str, start: int = 0, *more: Any) -> int:  # type: ignore[override]
        found = super().find(part, start, *more)
        self.looked_at[0] += (found if found >= 0 else len(self)) - start
        return found

    def __getitem__(self, place: Any) -> str:
        piece = super().__getitem__(place)
        self.looked_at[0] += len(piece)
        return piece


def characters_of(text: str) -> int:
    counted = CountedText(text)
    counted.looked_at = [0]
    try:
        check_nesting(counted, Budgets(json_bytes=2**30), "the text")
    except ModelFileError as error:
        raise AssertionError(error) from error
    return counted.looked_at[0]


@pytest.mark.parametrize(
    "text",
    [
        lambda n: '"' + '\\"' * n,  # a string without an end
        lambda n: '"' + '\\"' * n + '"',
        lambda n: '"' + "\\" * n,
        lambda n: '"' + "\\" * (2 * n + 1) + '"',
        lambda n: '"a",' * n,
        lambda n: "1," * n,
        lambda n: '"' * n,
        lambda n: '\\"' * n,
    ],
    ids=["open", "escaped quotes", "open backslashes", "backslashes", "strings", "numbers", "quotes", "no string"],
)
def test_the_scanner_of_json_looks_at_each_character_a_few_times(text: Callable[[int], str]) -> None:
    once, twice = characters_of(text(4_000)), characters_of(text(8_000))
    assert twice <= MOST * once
    assert twice <= 4 * len(text(8_000)) + 16


def steps_of(read: Callable[[bytes], Any], data: bytes) -> int:
    """Lines and calls of Python that reading takes."""
    steps = 0

    def count(*_: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        read(data)
    except ModelFileError:
        pass
    finally:
        sys.settrace(before)
    return steps


def translated(data: bytes) -> Any:
    return known_value(read_pickle(data).value)


READERS: dict[str, tuple[Callable[[bytes], Any], Callable[[int], bytes]]] = {
    "pickle of numbers": (translated, lambda n: pickle.dumps(list(range(n)))),
    "pickle of one list many times": (translated, lambda n: pickle.dumps([[1, 2]] * n)),
    "pickle of a table": (translated, lambda n: pickle.dumps({str(i): i for i in range(n)})),
    "pickle of marks": (translated, lambda n: b"\x80\x04" + b"(" * n + b"t" * n + b"."),
    "JSON of lists": (lambda data: decode(parse_json(data, Budgets())), lambda n: b"[" + b"[]," * n + b"[]]"),
    "JSON of tags": (
        lambda data: decode(parse_json(data, Budgets())),
        lambda n: b"[" + b'{"$":"tuple","value":[1]},' * n + b"1]",
    ),
    "statistics of quotes": (parse_normalizer, lambda n: n.to_bytes(8, "little") + b'{"' + b'\\"' * n),
    "TOML of values": (lambda data: parse_toml(data, "x"), lambda n: b"".join(b"k%d=1\n" % i for i in range(n))),
    "TOML of tables": (lambda data: parse_toml(data, "x"), lambda n: b"".join(b"[a.k%d]\n" % i for i in range(n))),
    "TOML under a dotted name": (
        lambda data: parse_toml(data, "x"),
        lambda n: b"[" + b"a." * n + b"a]\n" + b"".join(b"k%d=1\n" % i for i in range(n)),
    ),
    "TOML of one dotted name": (lambda data: parse_toml(data, "x"), lambda n: b"a." * n + b"a=1"),
    "TOML of a quoted dotted name": (lambda data: parse_toml(data, "x"), lambda n: b"\"=\" . '#'." * n + b"a=1"),
    "TOML of quotes": (lambda data: parse_toml(data, "x"), lambda n: b'a="' + b'\\"' * n),
    "TOML of brackets": (lambda data: parse_toml(data, "x"), lambda n: b"a=" + b"[" * n),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_take_twice_the_steps_for_twice_the_length(name: str) -> None:
    read, make = READERS[name]
    length = 1_000 if name == "TOML under a dotted name" else 300
    read_once = steps_of(read, make(length))  # what is made at the first call
    once, twice = steps_of(read, make(length)), steps_of(read, make(2 * length))
    assert once <= read_once + 200  # a collection of garbage may come in between
    assert twice <= MOST * once + 200


@pytest.mark.parametrize(
    "text",
    ["a." * 9_000 + "a = 1", "\"=\" .\t'#'." * 9_000 + "a = 1", "[" + "a." * 9_000 + "a]", "x = {" + "a." * 9_000],
)
def test_a_dotted_name_of_toml_takes_no_memory_by_the_square_of_its_length(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="more than 32 parts"):
            parse_toml(text.encode(), "it")
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()


def test_texts_and_numbers_with_dots_are_no_long_names() -> None:
    numbers = [index + 0.5 for index in range(3_000)]
    text = f'a.b."c.d" = {numbers}\nt = "www.example.org, one. two. three."\n[x.y]\nz = 1e-3\n'
    assert parse_toml(text.encode(), "it")["a"]["b"]["c.d"] == numbers
