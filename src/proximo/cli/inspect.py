"""``proximo inspect``: what is in this file?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from proximo.cli.command import flag, parse

if TYPE_CHECKING:
    from rich.table import Table

    from proximo.persistence.inspection import Inspection

SUMMARY = """Show what is in a model file: Proximo's models and checkpoints, model files of Stable-Baselines3 and
sb3-contrib, and the statistics of VecNormalize. Nothing in the file is run; what is code in it is listed."""
EXAMPLES = (
    "proximo inspect runs/CartPole-v1-ppo-1-20260102-030405/model.zip",
    "proximo inspect model_from_sb3.zip",
    "proximo inspect vecnormalize.pkl",
)


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """Which file to look into."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")] = flag(
        "Model file, checkpoint or normalisation statistics."
    )


def run(words: Sequence[str]) -> int:
    arguments = parse(Inspect, "inspect", SUMMARY, EXAMPLES, words)
    from proximo.cli.console import shown_path
    from proximo.persistence.inspection import inspect_file

    show(inspect_file(arguments.file), shown_path(arguments.file))
    return 0


def show(inspection: Inspection, title: str) -> None:
    from rich.markup import escape

    from proximo.cli.console import output

    console = output()
    console.print(f"[bold]{escape(title)}[/]: {escape(inspection.kind)}\n")
    console.print(_pairs(inspection.facts))
    if inspection.values:
        console.print("\n[bold]Settings[/]")
        console.print(_pairs(inspection.values))
    if inspection.weights:
        console.print(f"\n[bold]{inspection.tensors_title}[/] ({len(inspection.weights)} tensors)")
        console.print(_weights(inspection))
    if inspection.pickled:
        console.print("\n[bold]Pickled values[/] (read as data; none is run)")
        console.print(_pickled(inspection))
    if inspection.needs:
        given = ", ".join(f'"{name}": …' for name in inspection.needs)
        console.print(f"\nload() will ask for what a file cannot hold safely: custom_objects={{{escape(given)}}}")
    console.print("\n[bold]Members[/]")
    console.print(_pairs({name: readable_size(size) for name, size in inspection.members.items()}))


def _grid(rows: Iterable[tuple[str, ...]]) -> Table:
    """Rows of a name, as it is, and of further cells in rich's markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for name, *cells in rows:
        table.add_row(f"  [cyan]{escape(name)}[/]", *cells)
    return table


def _pairs(pairs: Mapping[str, str]) -> Table:
    from rich.markup import escape

    return _grid((name, escape(value)) for name, value in pairs.items())


def _weights(inspection: Inspection) -> Table:
    shapes = [" × ".join(map(str, weight.shape)) or "1" for weight in inspection.weights]
    rows = zip(inspection.weights, shapes, strict=True)
    return _grid((weight.name, shape, f"[dim]{weight.dtype}[/]") for weight, shape in rows)


def _pickled(inspection: Inspection) -> Table:
    from rich.markup import escape

    verdicts = {True: "[yellow]code, not run[/]", False: "[green]data[/]"}
    table = _grid((value.name, verdicts[value.is_code], escape(value.what)) for value in inspection.pickled)
    table.columns[-1].overflow = "fold"
    return table


def readable_size(size: int) -> str:
    """
    >>> readable_size(900), readable_size(41407), readable_size(3 * 2**20)
    ('900 bytes', '40.4 KiB', '3.0 MiB')
    """
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"
