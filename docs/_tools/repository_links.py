"""Relative links that lead to files of the repository lead to their pages of the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "README.md": "docs/index.md",
    "CHANGELOG.md": "docs/changelog.md",
    "SECURITY.md": "docs/security.md",
    "CONTRIBUTING.md": "docs/contributing.md",
    "benchmarks/README.md": "docs/results/replicate.md",
    **{f"benchmarks/results/{path.name}": f"docs/results/{path.name}" for path in (DOCS / "results").iterdir()},
    # the folder of a page's trainings
    **{f"benchmarks/results/{path.stem}": f"docs/results/{path.name}" for path in (DOCS / "results").glob("*.md")},
}
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(#[^)]*)?(?=\))")


def lead(text: str, home: Path, page: Path) -> str:
    """The text of a file in ``home``, with links as they must be on a page in the folder ``page``."""

    def target(found: re.Match[str]) -> str:
        file = os.path.normpath(home / found[1])
        if not os.path.exists(file):
            return found[0]  # the build says so
        file = ROOT / PAGES.get(os.path.relpath(file, ROOT), os.path.relpath(file, ROOT))
        return os.path.relpath(file, page) + (found[2] or "")

    pieces = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(piece if piece.startswith("`") else LINK.sub(target, piece) for piece in pieces)


def on_page(app: Sphinx, name: str, source: list[str]) -> None:
    folder = (DOCS / name).parent
    source[0] = lead(source[0], folder, folder)


def on_include(app: Sphinx, file: Path, name: str, content: list[str]) -> None:
    # MyST gives the page's name without its folder: the environment knows the whole of it
    content[0] = lead(content[0], (DOCS / file).parent, (DOCS / app.env.docname).parent)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", on_page)
    app.connect("include-read", on_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
