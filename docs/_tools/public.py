"""What is public, and how its constructors' arguments are described; the site and the tests ask here."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# how the library does its work: nobody else imports these, and they may change
INNER = (
    "proximo.__main__",
    "proximo.agents.arguments",
    "proximo.agents.building",
    "proximo.agents.checks",
    "proximo.agents.copying",
    "proximo.agents.environment",
    "proximo.agents.host_run",
    "proximo.agents.hosted",
    "proximo.agents.logs",
    "proximo.agents.saving",
    "proximo.agents.scales",
    "proximo.agents.together",
    "proximo.backends.fused",
    "proximo.backends.noise",
    "proximo.backends.threads",
    "proximo.backends.transfers",
    "proximo.cli",
    "proximo.compilation",
    "proximo.cores",
    "proximo.envs.state",
    "proximo.envs.vector.normalize_kernels",
    "proximo.envs.workers.shared_memory",
    "proximo.envs.workers.supervision",
    "proximo.envs.workers.worker",
    "proximo.envs.workers.worker_pool",
    "proximo.exploration.model",
    "proximo.exploration.observations",
    "proximo.export.check",
    "proximo.export.graph",
    "proximo.export.interface",
    "proximo.export.pipeline",
    "proximo.export.samples",
    "proximo.export.spaces_as_json",
    "proximo.export.writers",
    "proximo.files",
    "proximo.functional.return_moments",
    "proximo.hub.card",
    "proximo.hub.client",
    "proximo.hub.listing",
    "proximo.hub.pulling",
    "proximo.networks.arguments",
    "proximo.networks.foreign",
    "proximo.networks.given",
    "proximo.networks.observation_keys",
    "proximo.networks.trunk",
    "proximo.other_libraries",
    "proximo.persistence",
    "proximo.reports",
    "proximo.rllte.paths",
    "proximo.rllte.verification",
    "proximo.rollout.exchange",
    "proximo.rollout.non_finite",
    "proximo.rollout.phase",
    "proximo.rollout.sharding",
    "proximo.training.allocator",
    "proximo.training.journal",
    "proximo.training.loop",
    "proximo.training.progress",
    "proximo.training.table_log",
    "proximo.training.trackers",
    "proximo.tuning.job",
    "proximo.tuning.picture",
    "proximo.tuning.pruning",
    "proximo.tuning.space",
    "proximo.tuning.study",
    "proximo.zoo.measured",
)
SECTION = re.compile(r"^(?:Arguments|Args):\n\n?((?:    .*\n|\n)*)", re.MULTILINE)
ARGUMENT = re.compile(r"^    (\*{0,2}\w+)((?: \(default .*?\))?): ((?:.*\n)(?:     .*\n|\n(?=     ))*)", re.MULTILINE)


def is_inner(name: str) -> bool:
    return any(name == inner or name.startswith(inner + ".") for inner in INNER)


def module_names(package: str = "proximo") -> list[str]:
    """The public modules of a package, the package itself first."""
    found = importlib.import_module(package)
    names = [package]
    if hasattr(found, "__path__"):
        names += [item.name for item in pkgutil.walk_packages(found.__path__, f"{package}.")]
    return sorted(name for name in names if not is_inner(name) and not name.split(".")[-1].startswith("_"))


def members(module: ModuleType) -> dict[str, Any]:
    """Classes and functions that a module gives out: those of ``__all__``, or all without an underscore."""
    told = getattr(module, "__all__", None)
    values = {name: getattr(module, name) for name in told or [name for name in vars(module) if name[0] != "_"]}
    return {
        name: value
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isroutine(value))
        and str(getattr(value, "__module__", "")).startswith("proximo")
        and (told or not is_inner(value.__module__))
    }


def defined(module: ModuleType) -> dict[str, Any]:
    """Those that are defined there, or that it gives out for an inner module."""
    return {
        name: value
        for name, value in members(module).items()
        if value.__module__ == module.__name__ or is_inner(value.__module__)
    }


def public_objects() -> Iterator[tuple[str, Any]]:
    """Every public class and function once, with the name of its home."""
    for module_name in module_names():
        for name, value in defined(importlib.import_module(module_name)).items():
            yield f"{module_name}.{name}", value


def own_methods(owner: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class defines or overrides."""
    for name, value in vars(owner).items():
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, getattr(owner, name)


def tidy(text: str | None) -> str:
    """A docstring without its margin; where it begins with the section, the margin of the arguments is kept."""
    clean = inspect.cleandoc(text or "")
    first, _, rest = clean.partition("\n")
    return f"{first}\n{textwrap.indent(rest, '    ')}" if first == "Arguments:" and rest[:1] != " " else clean


def described(text: str | None) -> dict[str, str]:
    """The arguments that a docstring describes in its section "Arguments:", with their meanings.

    >>> described("What.\\n\\nArguments:\\n    rate (default 1): How fast,\\n        per second.\\n    size: How big.")
    {'rate': 'How fast, per second.', 'size': 'How big.'}
    """
    section = SECTION.search(tidy(text) + "\n")
    if section is None:
        return {}
    return {name.lstrip("*"): " ".join(meaning.split()) for name, _, meaning in ARGUMENT.findall(section[1])}


def field_meanings(owner: type[Any]) -> dict[str, str]:
    """Of the fields of a dataclass or NamedTuple: what their metadata say, or the comment behind them."""
    if not hasattr(owner, "__dataclass_fields__") and not hasattr(owner, "_fields"):
        return {}
    commented = re.findall(r"^    (\w+): [^#\n]*#\s*(.*)$", inspect.getsource(owner), re.MULTILINE)
    fields = getattr(owner, "__dataclass_fields__", {})
    told = {name: item.metadata["meaning"] for name, item in fields.items() if "meaning" in item.metadata}
    return dict(commented) | told


def meanings(owner: type[Any]) -> dict[str, str]:
    """What each argument of a constructor means, by the docstrings of class and ``__init__``, its own first."""
    found: dict[str, str] = {}
    for base in reversed([base for base in owner.__mro__ if base.__module__.startswith("proximo")]):
        found |= field_meanings(base)
        found |= described(vars(base).get("__doc__"))
        found |= described(getattr(vars(base).get("__init__"), "__doc__", None))
    return found


def arguments(owner: type[Any]) -> dict[str, inspect.Parameter]:
    """The named arguments of a class's constructor; none where the class takes Python's own or another library's.

    Where a constructor hands ``**kwargs`` on, those of the next base's constructor are among them.
    """
    ours = str(getattr(owner.__init__, "__module__", "")).startswith("proximo")
    if not ours and not hasattr(owner, "__dataclass_fields__") and not hasattr(owner, "_fields"):
        return {}
    try:
        parameters = dict(inspect.signature(owner).parameters)
    except (TypeError, ValueError):
        return {}
    bases = iter([base for base in owner.__mro__ if "__init__" in vars(base)])
    next(bases, None)
    takes_more = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    while takes_more and (base := next(bases, None)) is not None and base.__module__.startswith("proximo"):
        inherited = inspect.signature(vars(base)["__init__"]).parameters
        takes_more = any(item.kind is item.VAR_KEYWORD for item in inherited.values())
        parameters |= {name: item for name, item in list(inherited.items())[1:] if name not in parameters}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: item for name, item in parameters.items() if item.kind not in kinds and not name.startswith("_")}
