"""Flags of the command line made from the hyperparameter dataclasses, so that nothing is written twice."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from proximo.config import OnPolicyConfig
from proximo.data import Schedule
from proximo.errors import near_matches
from proximo.zoo.presets import schedule_from_text


class Unset:
    """The value of a flag that was not given: the preset's value stays."""

    def __repr__(self) -> str:
        return "unset"

    def __bool__(self) -> bool:
        return False


UNSET = Unset()


def given_flags(flags: Any) -> dict[str, Any]:
    """The fields of a dataclass of :func:`hyperparameter_flags` that were given."""
    values = {item.name: getattr(flags, item.name) for item in fields(flags)}
    return {name: value for name, value in values.items() if value is not UNSET}


def one_word(parse: Callable[[str], Any], metavar: str) -> tyro.constructors.PrimitiveConstructorSpec[Any]:
    """How a flag that takes one word is read."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda _: True,
        str_from_instance=lambda value: [str(value)],
    )


def default_is(text: str) -> Any:
    """What the help text says of a flag that is not given."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {text})")


def hyperparameter_flags(config_class: type[OnPolicyConfig], defaults: Mapping[str, Any]) -> type:
    """A dataclass with a flag for every field of a configuration, each unset; the help text shows ``defaults``."""
    helps = config_class.meanings()
    types = get_type_hints(config_class)
    entries = []
    for item in fields(config_class):
        parse, metavar = _parser(item.name, types[item.name])
        hint = f"(default: the preset's, else {_shown(defaults[item.name])})"
        shown = tyro.conf.arg(help=helps[item.name], help_behavior_hint=hint)
        entries.append((item.name, Annotated[Any, one_word(parse, metavar), shown], field(default=UNSET)))
    return make_dataclass("hyperparameters", entries, frozen=True, kw_only=True)


def toml_table(text: str) -> dict[str, Any]:
    """An inline table of TOML, with or without its braces.

    >>> toml_table('net_arch = [32, 32], activation_fn = "ReLU"')
    {'net_arch': [32, 32], 'activation_fn': 'ReLU'}
    """
    table = text.strip()
    inline = table if table.startswith("{") else f"{{{table}}}"
    try:
        return dict(tomllib.loads(f"table = {inline}")["table"])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"expected TOML such as 'net_arch = [64, 64]', got {text!r} ({error})") from error


def yes_or_no(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"expected true or false, got {text!r}; {near_matches(text, words)}")
    return words[text.lower()]


def _parser(name: str, kind: Any) -> tuple[Callable[[str], Any], str]:
    """How the text of a flag becomes a value, and what the help text calls such a value."""
    parts = set(getattr(kind, "__args__", (kind,)))
    if type(None) in parts:
        parse, metavar = _parser_of_value(name, parts - {type(None)})
        return (lambda text: None if text.lower() == "none" else parse(text)), f"{metavar}|none"
    return _parser_of_value(name, parts)


def _parser_of_value(name: str, parts: set[Any]) -> tuple[Callable[[str], Any], str]:
    if parts == {bool}:
        return yes_or_no, "{true,false}"
    if parts == {int}:
        return whole_number, "INT"
    if parts == {float}:
        return number, "FLOAT"
    if parts == {float, Schedule}:
        return _schedule_parser(name), "FLOAT|lin_FLOAT"
    if parts == {float, Schedule, str}:
        return _schedule_parser(name), "FLOAT|lin_FLOAT|kl_FLOAT"
    raise TypeError(f"no flag can be made for {name} of type {parts}; expected bool, int, float or a schedule")


def whole_number(text: str) -> int:
    """An integer, also in the forms 1_000_000 and 1e6.

    >>> whole_number("1e6")
    1000000
    """
    try:
        return int(text)
    except ValueError:
        value = _float(text)
    if value is None or not value.is_integer():
        raise ValueError(f"expected a whole number, got {text!r}")
    return int(value)


def workers_of(text: str) -> int | str:
    """How many worker processes, or the word that says who decides it.

    >>> workers_of("cores"), workers_of("2")
    ('cores', 2)
    """
    if text in ("auto", "cores"):
        return text
    try:
        return whole_number(text)
    except ValueError as error:
        raise ValueError(f"expected auto, cores or a number of worker processes such as 4, got {text!r}") from error


def seed_numbers(text: str) -> tuple[int, ...]:
    """Seeds as ranges and numbers.

    >>> seed_numbers("1-3,7")
    (1, 2, 3, 7)
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"expected seeds such as 1-5 or 1,3,7-9, got {text!r}")
        seeds.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"the seeds {text!r} name one twice")
    return tuple(seeds)


def number(text: str) -> float:
    if (value := _float(text)) is None:
        raise ValueError(f"expected a number, got {text!r}")
    return value


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _schedule_parser(name: str) -> Callable[[str], Any]:
    def parse(text: str) -> float | str:
        schedule_from_text(name, text)  # refuses what is neither a number nor lin_X
        return text if text.startswith(("lin_", "kl_")) else float(text)

    return parse


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


Count = Annotated[int, one_word(whole_number, "INT")]
OptionalCount = Annotated[int | None, one_word(whole_number, "INT")]
OptionalNumber = Annotated[float | None, one_word(number, "FLOAT")]
OptionalChoice = Annotated[bool | None, one_word(yes_or_no, "{true,false}")]
OptionalTable = Annotated[dict[str, Any] | None, one_word(toml_table, "TOML")]
OptionalPath = Annotated[Path | None, one_word(Path, "PATH")]
OptionalText = Annotated[str | None, one_word(str, "TEXT")]
OptionalSeeds = Annotated[tuple[int, ...] | None, one_word(seed_numbers, "SEEDS")]
RunFolders = Annotated[
    tyro.conf.Positional[tuple[Path, ...]],
    tyro.conf.arg(metavar="RUN [RUN …]", help_behavior_hint="(required)"),
]
