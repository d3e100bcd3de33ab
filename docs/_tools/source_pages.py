"""The role ``{source}`learners/ppo.py:PPOLearner.combine```: a link to those lines, on a page with the file's text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

SOURCES = Path(__file__).parents[2] / "src" / "proximo"


def line_of(file: str, symbol: str) -> int:
    """The line in which a class, function, method or constant is defined."""
    body: list[Any] = ast.parse((SOURCES / file).read_text(encoding="utf-8")).body
    line = 1
    for part in symbol.split("."):
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            if part in {getattr(target, "name", getattr(target, "id", None)) for target in targets}:
                line, body = node.lineno, getattr(node, "body", [])
                break
        else:
            raise ValueError(f"src/proximo/{file} has no {symbol}")
    return line


class Source(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        file, _, symbol = self.text.partition(":")
        line = line_of(file, symbol)
        self.env.metadata[self.env.docname].setdefault("sources", "")
        self.env.metadata[self.env.docname]["sources"] += f"{file} "
        up = "../" * self.env.docname.count("/")
        address = f"{up}source/{file.removesuffix('.py')}.html#L-{line}"
        shown = nodes.literal("", f"{file}: {symbol}" if symbol else file)
        return [nodes.reference("", "", shown, refuri=address, internal=True, classes=["source"])], []


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for every file that is linked to."""
    files = {file for metadata in app.env.metadata.values() for file in str(metadata.get("sources", "")).split()}
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
    for file in sorted(files):
        text = highlight((SOURCES / file).read_text(encoding="utf-8"), PythonLexer(), formatter)
        title = f"src/proximo/{file}"
        heading = title.replace("/", "/<wbr>")  # a phone breaks the line there, not within a name
        yield f"source/{file.removesuffix('.py')}", {"title": title, "body": f"<h1>{heading}</h1>{text}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("source", Source())
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
