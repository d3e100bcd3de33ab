"""What every command is made of: a dataclass of arguments, a summary and examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import tyro

Arguments = TypeVar("Arguments")


def check_at_least(flag: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{flag} is {value}; expected at least {least}")


def parse(
    arguments: type[Arguments], command: str, summary: str, examples: Sequence[str], words: Sequence[str]
) -> Arguments:
    """Read a command's words into its dataclass; ``--help`` and mistakes end the program as usual (0 and 2)."""
    shown = "\n".join(f"  {example}" for example in examples)
    parsed: Arguments = tyro.cli(
        arguments,
        prog=f"proximo {command}",
        description=f"{summary}\n\nExamples:\n{shown}",
        args=list(words),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return parsed
