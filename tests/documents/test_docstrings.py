"""Everything public has a docstring, and every constructor argument is described where `help` and the site show it."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import sys

import pytest
from document_pages import DOCS

import proximo
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
    assert counted > 1500
    assert missing == []


@pytest.mark.parametrize(
    "owner", [*(getattr(proximo, name) for name in proximo.ALGORITHMS.values()), ActorCriticCnnPolicy]
)
def test_help_shows_every_argument(owner: type) -> None:
    text = pydoc.plain(pydoc.render_doc(owner))
    for name in public.arguments(owner):
        assert re.search(rf"^ \|\s+{name}(?: \(default .*)?: \S", text, re.MULTILINE), name


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
