"""How the library works beside another one, Stable-Baselines3 above all, without importing it.

* Its abstract base classes accept classes of this library (:func:`stands_for`), and this library its objects
  (:func:`counts_as`): a class is registered when both it and its counterpart have been imported, in either order.
* A compatibility package hands out what it does not have itself, such as off-policy algorithms, from the library
  whose names it mirrors (:func:`names_from`, :func:`answer_missing_modules`): only then is that one imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeVar

from proximo.errors import absent_name

Class = TypeVar("Class", bound=type)

_PAIRS: dict[str, list[tuple[str, type]]] = {}  # module of the other library → names there and classes here
_COUNTERPARTS: dict[type, tuple[str, str]] = {}  # class here → module and name there
_MIRRORED: dict[str, str] = {}  # compatibility package → the library whose names it mirrors


def stands_for(module: str, name: str) -> Callable[[Class], Class]:
    """Register the decorated class with the abstract base class ``module.name``, now or when that is imported."""

    def register(ours: Class) -> Class:
        _PAIRS.setdefault(module, []).append((name, ours))
        _COUNTERPARTS[ours] = module, name
        if module in sys.modules:
            _register_all(sys.modules[module])
        return ours

    return register


def counts_as(thing: object, ours: type) -> bool:
    """Whether a thing is of a class of the library, or of the one that this class stands for.

    Nothing needs to be imported for that: who holds an object of the other library has imported it.
    """
    if isinstance(thing, ours):
        return True
    theirs = real_class(*_COUNTERPARTS[ours]) if ours in _COUNTERPARTS else None
    return theirs is not None and isinstance(thing, theirs)


def real_class(module: str, name: str) -> type[Any] | None:
    """A class of another library, if that has been imported."""
    return getattr(sys.modules.get(module), name, None)


def _register_all(theirs: ModuleType) -> None:
    for name, ours in _PAIRS.get(theirs.__name__, ()):
        base: Any = getattr(theirs, name, None)  # absent in other versions
        if hasattr(base, "register") and not issubclass(ours, base):
            base.register(ours)


def names_from(ours: str, modules: Mapping[str, str], also: Sequence[str] = ()) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that takes names from the other library's ``modules``, where it is installed.

    Of a package it also gives the modules, which ``import stable_baselines3`` alone makes its attributes there.
    ``also`` are modules of the compatibility package that the real one imports from: scripts take names from either.
    """

    def __getattr__(name: str) -> Any:
        explanation = ""
        if name in modules:
            try:
                real = importlib.import_module(modules[name])
            except ModuleNotFoundError:
                explanation = _explanation(modules[name])
            else:
                if real.__name__ != ours:  # this module may answer for the real one, in sys.modules
                    return getattr(real, name)
        elif PathFinder.find_spec(f"{ours}.{name}", vars(sys.modules[ours]).get("__path__", [])) is not None:
            return importlib.import_module(f"{ours}.{name}")
        elif not name.startswith("_"):
            others = (vars(importlib.import_module(f"proximo.sb3.{other}")) for other in also)
            if (found := next((names[name] for names in others if name in names), None)) is not None:
                return found
        raise absent_name(ours, name, explanation)

    return __getattr__


def answer_missing_modules(package: str, library: str) -> None:
    """Let ``import package.x`` give the names of ``library.x`` where the compatibility package has no such module."""
    if not _MIRRORED:
        sys.meta_path.append(_MissingModules())
    _MIRRORED[package] = library


def _explanation(theirs: str) -> str:
    library = theirs.split(".")[0].replace("_", "-")
    return f": Proximo, an on-policy library, leaves it to {theirs}, which is not installed: pip install {library}"


class _Watcher(MetaPathFinder):
    """Registers when a module of the other library has been imported; how it is found and loaded stays as it is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _PAIRS:
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in finders if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                _register_all(module)

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]  # of this one loader
        return spec


class _MissingModules(MetaPathFinder, Loader):
    """Asked after all others; a module that it makes has no code, only the names of the real one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = next((package for package in _MIRRORED if fullname.startswith(f"{package}.")), None)
        return None if package is None else ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        package = next(package for package in _MIRRORED if module.__name__.startswith(f"{package}."))
        theirs = _MIRRORED[package] + module.__name__.removeprefix(package)
        try:
            real = importlib.import_module(theirs)
        except ModuleNotFoundError as error:
            missing = error.name == _MIRRORED[package]  # the library as a whole
            raise ModuleNotFoundError(
                f"No module named {module.__name__!r}{_explanation(theirs) if missing else ''}", name=module.__name__
            ) from error
        module.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")})


sys.meta_path.insert(0, _Watcher())
