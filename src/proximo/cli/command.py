"""What every command is made of: a dataclass of arguments, a summary and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro

Arguments = TypeVar("Arguments")


def check_at_least(flag: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{flag} is {value}; expected at least {least}")


def flag(meaning: str, default: Any = MISSING) -> Any:
    """A field of a command's arguments, with its help text."""
    return field(default=default, metadata={"meaning": meaning})


def parse(
    arguments: type[Arguments], command: str, summary: str, examples: Sequence[str], words: Sequence[str]
) -> Arguments:
    """Read a command's words into its dataclass; ``--help`` and mistakes end the program as usual (0 and 2)."""
    shown = "\n".join(f"  {example}" for example in examples)
    parsed: Arguments = tyro.cli(
        _explained(arguments),
        prog=f"proximo {command}",
        description=f"{summary}\n\nExamples:\n{shown}",
        args=list(words),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return parsed


def _explained(arguments: type[Arguments]) -> type[Arguments]:
    """The dataclass with its help texts in the annotations, where tyro looks before it opens source files.

    A zipped or frozen install has no source files.
    """
    kinds = get_type_hints(arguments, include_extras=True)
    explained = [
        (
            item.name,
            Annotated[kinds[item.name], tyro.conf.arg(help=item.metadata["meaning"])],
            field(default=item.default, metadata=item.metadata),
        )
        for item in fields(arguments)  # type: ignore[arg-type]
    ]
    return make_dataclass(arguments.__name__, explained, bases=(arguments,), frozen=True, kw_only=True)
