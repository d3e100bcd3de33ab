"""The pages of the documentation and the Python blocks in them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# a training on a page may be long for a reader; tests try whether it runs
SMALLER = {"25_000": "512", "100_000": "512", "10_000": "512", "preset.n_timesteps": "512", "=100)": "=2)"}
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>slow|needs \w+) -->\n)?```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A Python block of a page: its mark, its code, and the text block behind it, which is what it prints."""

    mark: str | None
    code: str
    printed: str | None

    @property
    def missing(self) -> str | None:
        """A package that it needs and that is not installed."""
        package = (self.mark or "").removeprefix("needs ") if (self.mark or "").startswith("needs ") else None
        return package if package and importlib.util.find_spec(package) is None else None


def blocks_of(page: Path) -> list[Block]:
    return [Block(found["mark"], found["code"], found["printed"]) for found in BLOCK.finditer(page.read_text("utf-8"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
