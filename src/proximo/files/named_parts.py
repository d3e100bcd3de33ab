"""Objects that a configuration names: looked up in tables, never imported by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from proximo.errors import near_matches

Part = dict[str, Any]  # "name" or "_target_", and arguments


def is_named(part: Part) -> bool:
    return part.get("name") is not None or part.get("_target_") is not None


class Parts:
    """Classes by kind and name; a kind is the module below one of the ``roots`` that a ``_target_`` may name.

    >>> parts = Parts(("mine",), {"colours": {"dict": dict}})
    >>> parts.make("colours", {"_target_": "os.system"})
    Traceback (most recent call last):
    ValueError: _target_ is 'os.system'; a configuration may name only classes of mine.colours: dict
    """

    def __init__(self, roots: Sequence[str], tables: Mapping[str, Mapping[str, Any]]) -> None:
        self.roots, self.tables = roots, tables

    def find(self, kind: str, part: Part, default: str | None = None) -> Any:
        """The class that a part names with ``name`` or ``_target_``."""
        table = self.tables[kind]
        target = part.get("_target_")
        name: Any = part.get("name") or default if target is None else self._name_of_target(kind, str(target))
        if name not in table:
            raise ValueError(f"{target or name!r} is no {kind.split('.')[-1]} here; {near_matches(str(name), table)}")
        return table[name]

    def _name_of_target(self, kind: str, target: str) -> str:
        module, _, name = target.rpartition(".")
        allowed = [f"{root}.{kind}" for root in self.roots]
        if module not in allowed:
            known = ", ".join(self.tables[kind])
            raise ValueError(f"_target_ is {target!r}; a configuration may name only classes of {allowed[0]}: {known}")
        return name

    def make(self, kind: str, part: Part, default: str | None = None, **known: Any) -> Any:
        """Make what a part names, with its own arguments and with ``known`` ones where it says nothing."""
        made = self.find(kind, part, default)
        own = {key: value for key, value in part.items() if key not in ("name", "_target_", "_convert_", "_recursive_")}
        own = {key: value for key, value in own.items() if value is not None and value != {}}
        accepted = list(inspect.signature(_constructor(made)).parameters)[1:]
        if unknown := [key for key in own if key not in accepted]:
            raise ValueError(f"{made.__name__} has no argument {unknown[0]!r}; {near_matches(unknown[0], accepted)}")
        return made(**({key: value for key, value in known.items() if key in accepted} | own))


def _constructor(made: type[Any]) -> Any:
    """The constructor that names its arguments: of a class that only passes them on, the next base's."""
    for base in made.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is not None and "kwargs" not in inspect.signature(constructor).parameters:
            return constructor
    return made.__init__
