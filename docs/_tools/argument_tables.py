"""The directive ``{arguments}``: every argument of a class, its default and its meaning, as ``help`` has them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from public import arguments, meanings
from sphinx.application import Sphinx


class Arguments(Directive):
    """A definition list of the constructor's arguments."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        owner = getattr(importlib.import_module(module), name)
        described = meanings(owner)
        rows = nodes.definition_list(classes=["arguments"])
        for label, parameter in arguments(owner).items():
            term = nodes.term("", "", nodes.literal("", label))
            if parameter.default is not inspect.Parameter.empty:
                term += [nodes.Text(" = "), nodes.literal("", repr(parameter.default))]
            meaning = nodes.definition("", nodes.paragraph("", described[label]))
            rows += nodes.definition_list_item("", term, meaning)
        return [rows]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("arguments", Arguments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
