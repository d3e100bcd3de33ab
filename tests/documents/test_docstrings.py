"""Everything public has a docstring, and every constructor argument is described where `help` and the site show it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import sys
from typing import Any

import pytest
from document_pages import DOCS, PAGES, blocks_of, name_of

import proximo
from proximo.agents.arguments import SHARED_ARGUMENTS
from proximo.networks.actor_critic import ActorCriticCnnPolicy

sys.path.insert(0, str(DOCS / "_tools"))
import public

OBJECTS = dict(public.public_objects())


def test_every_class_function_and_method_has_a_docstring() -> None:
    missing = []
    for name, thing in OBJECTS.items():
        own = thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)
        if not own or own.startswith(f"{getattr(thing, '__name__', '')}("):  # what a dataclass says by itself
            missing.append(name)
        if inspect.isclass(thing):
            missing += [f"{name}.{label}" for label, method in public.own_methods(thing) if not inspect.getdoc(method)]
    assert len(OBJECTS) > 600
    assert missing == []


def test_every_constructor_argument_is_described() -> None:
    missing, counted = [], 0
    for name, thing in OBJECTS.items():
        if inspect.isclass(thing):
            arguments, meanings = public.arguments(thing), public.meanings(thing)
            counted += len(arguments)
            missing += [f"{name}({argument})" for argument in arguments if not meanings.get(argument)]
    assert counted > 2000
    assert missing == []


def test_arguments_that_are_handed_on_are_counted() -> None:
    class Base:
        def __init__(self, far: int, shared: int) -> None: ...

    class Between(Base):
        def __init__(self, *args: int, shared: int = 1, **kwargs: int) -> None: ...

    class Face(Between):
        def __init__(self, near: int, **kwargs: int) -> None: ...

    owners: list[Any] = [Base, Between, Face]
    for owner in owners:
        owner.__init__.__module__ = owner.__module__ = "proximo.handed"
    assert list(public.arguments(Face)) == ["near", "shared", "far"]
    assert public.arguments(Face)["shared"].default == 1


@pytest.mark.parametrize(
    "owner", [*(getattr(proximo, name) for name in proximo.ALGORITHMS.values()), ActorCriticCnnPolicy]
)
def test_help_shows_every_argument(owner: type) -> None:
    text = pydoc.plain(pydoc.render_doc(owner))
    for name in public.arguments(owner):
        assert re.search(rf"^ \|\s+{name}(?: \(default .*)?: \S", text, re.MULTILINE), name


@pytest.mark.parametrize("algorithm", sorted(proximo.ALGORITHMS.values()))
def test_a_description_is_shown_as_it_was_written(algorithm: str) -> None:
    """No word is broken where a line is."""
    shown = public.meanings(getattr(proximo, algorithm))
    assert {name: text for name, text in SHARED_ARGUMENTS.items() if shown.get(name, text) != text} == {}


def test_a_class_without_descriptions_is_noticed() -> None:
    class Bare:
        """Arguments:
        told: What it means.
        """

        def __init__(self, told: int, untold: int) -> None: ...

    Bare.__init__.__module__ = Bare.__module__ = "proximo.bare"
    assert set(public.arguments(Bare)) - set(public.meanings(Bare)) == {"untold"}


def test_the_reference_has_every_public_module() -> None:
    pages = [page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md")]
    shown = [
        name for page in pages for found in re.findall(r"<!-- modules: (.*) -->", page) for name in found.split(", ")
    ]
    modules = {module for name in shown for module in public.module_names(name)}
    assert {name for name in public.module_names() if public.members(importlib.import_module(name))} - modules == {
        "proximo"
    }
    listed = {f"{value.__module__}" for value in map(proximo.__getattr__, proximo.__all__) if inspect.isclass(value)}
    assert listed <= modules


def test_what_the_pages_import_is_in_the_reference() -> None:
    shown = {id(thing) for thing in OBJECTS.values()}
    missing = {
        f"{name_of(page)}: {node.module}.{item.name}"
        for page in PAGES
        for block in blocks_of(page)
        for node in ast.walk(ast.parse(block.code))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "proximo"
        for item in node.names
        if id(getattr(importlib.import_module(str(node.module)), item.name)) not in shown
    }
    assert missing == set()
