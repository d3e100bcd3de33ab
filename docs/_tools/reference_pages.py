"""Reference pages: a comment ``<!-- modules: proximo.envs -->`` becomes what those packages hold."""

from __future__ import annotations

import importlib
import re
from typing import Any

from public import arguments, defined, meanings, members, module_names
from sphinx.application import Sphinx

MODULES = re.compile(r"^<!-- modules: (.*) -->$", re.MULTILINE)


def describe_module(name: str) -> str:
    """A heading, the objects that a module defines, and a table of those that it only names."""
    module = importlib.import_module(name)
    own, named = defined(module), members(module)
    lines = [f"## {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
    if own:
        lines += [f"   :members: {', '.join(own)}", "   :undoc-members:", "   :show-inheritance:"]
    lines += ["```", ""]
    elsewhere = {label: value for label, value in named.items() if label not in own}
    is_face = getattr(module, "__path__", None) is not None or not own
    if is_face and elsewhere:
        lines += ["| name | is |", "|---|---|"]
        for label, value in sorted(elsewhere.items()):
            home = f"{value.__module__}.{value.__qualname__}"
            lines.append(f"| `{label}` | {{py:obj}}`{home}` |")
        lines.append("")
    return "\n".join(lines)


def on_page(app: Sphinx, name: str, source: list[str]) -> None:
    def expand(found: re.Match[str]) -> str:
        names = [module for package in found[1].split(", ") for module in module_names(package)]
        pages = [describe_module(module) for module in dict.fromkeys(names) if members(importlib.import_module(module))]
        return "\n".join(pages)

    source[0] = MODULES.sub(expand, source[0])


def is_foreign(name: str) -> bool:
    """Whether a method has no docstring but one of another library's class."""
    owner, _, method = name.rpartition(".")
    module, _, label = owner.rpartition(".")
    known = (
        vars(importlib.import_module(module)).get(label)
        if module.startswith("proximo") and label[:1].isupper()
        else None
    )
    bases = [base for base in getattr(known, "__mro__", ()) if getattr(vars(base).get(method), "__doc__", None)]
    return bool(bases) and not bases[0].__module__.startswith("proximo")


def escaped(line: str) -> str:
    """Stars and bars as they are: docstrings mean products, arguments and norms by them."""
    if line.lstrip().startswith(">>>"):
        return line
    bullet = "* " if line.startswith("* ") else ""
    pieces = re.split(r"(``.*?``|`.*?`)", line.removeprefix(bullet))
    return bullet + "".join(piece if piece.startswith("`") else re.sub(r"([*|])", r"\\\1", piece) for piece in pieces)


def as_fields(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Instead of a section "Arguments:", the list that Sphinx knows; of a class all arguments, also those of a base."""
    if what in ("method", "property", "attribute") and is_foreign(name):
        lines.clear()
        return
    lines[:] = map(escaped, lines)
    if what not in ("class", "exception"):
        return
    starts = [index for index, line in enumerate(lines) if line in ("Arguments:", "Args:")]
    if starts:
        end = starts[0] + 1
        while end < len(lines) and (not lines[end] or lines[end].startswith("    ")):
            end += 1
        del lines[starts[0] : end]
    described = meanings(thing)
    fields = [f":param {label}: {escaped(described[label])}" for label in arguments(thing)]
    lines += ["", *fields, ""]


def is_described_above(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Fields of a NamedTuple are in the list of its arguments; Python says of each no more than its number."""
    return str(getattr(thing, "__doc__", "")).startswith("Alias for field number") or None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", on_page)
    app.connect("autodoc-process-docstring", as_fields)
    app.connect("autodoc-skip-member", is_described_above)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
