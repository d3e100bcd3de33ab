"""The errors of Proximo: each says what came, what was expected and what to do."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable
from difflib import get_close_matches

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


class ProximoError(Exception):
    """Base of all errors that are Proximo's own."""


# Stable-Baselines3 refuses these by an assert: code that was written for it may catch AssertionError.


class ArgumentValueError(ProximoError, ValueError, AssertionError):
    """An argument, or a space, that does not fit."""


class ArgumentTypeError(ProximoError, TypeError, AssertionError):
    """An argument of the wrong kind."""


class UnsupportedSpaceError(ProximoError, NotImplementedError, AssertionError):
    """A space that no network of the library reads or acts in."""


class WrongMomentError(ProximoError, RuntimeError, AssertionError):
    """A call, or an object, where it has nothing to work on."""


class NotAnEnvironmentError(ProximoError, TypeError, ValueError):
    """What cannot be stepped; Stable-Baselines3 has a ValueError for it."""


class MissingKeyError(ProximoError, ValueError, KeyError):
    """A part that a dictionary or its space lacks."""

    __str__ = Exception.__str__  # KeyError's own shows the sentence in quotes


class UnfittingWeightsError(ProximoError, ValueError, RuntimeError):
    """Weights of another network; PyTorch has a RuntimeError for it."""


class ModelFileError(ProximoError, ValueError):
    """A model file that is damaged, truncated, foreign, or asks for more than it may."""


class EnvWorkerError(ProximoError, RuntimeError):
    """An environment failed in a worker process, or the worker itself died."""


class EnvironmentStateError(ProximoError, RuntimeError):
    """The state of an environment cannot be taken, or one that was taken does not fit."""


class NotExactError(ProximoError, RuntimeError):
    """A resume that would not repeat the uninterrupted training bit for bit, where that was asked for."""


class NonFiniteError(ProximoError, ArithmeticError, ValueError):
    """NaN or infinity where a number was expected."""


class DistributedError(ProximoError, RuntimeError):
    """Another process of the training failed, has gone, or does not come."""


class NotEnoughMemoryError(ProximoError, MemoryError):
    """What was asked for needs more memory than is free."""


class ExportError(ProximoError, ValueError):
    """A policy that cannot be exported, or whose file would not act as ``predict`` does."""


class MissingExtraError(ProximoError, ImportError, AssertionError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        """Arguments:
        package: What could not be imported.
        extra: The extra of Proximo that brings it.
        purpose: What it is needed for.
        """
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'proximo[{extra}]'")


class MissingSystemLibraryError(ProximoError, ImportError):
    """A shared library that Python code needs cannot be loaded."""


def absent_name(module: str, name: str, explanation: str = "", frames: int = 2) -> Exception:
    """The error of a module's ``__getattr__`` for a name it lacks; the caller raises it.

    It is an ``AttributeError``, so that ``hasattr`` is False. But of that, ``from module import name`` makes an
    ``ImportError`` without explanation: where Python's import looks for the name, it is an ``ImportError`` itself.
    """
    asking = sys._getframe(frames)
    importing = asking.f_code.co_name == "_handle_fromlist" or asking.f_code.co_code[asking.f_lasti] == _IMPORT_FROM
    if explanation and importing:
        return ImportError(f"{name} is not in {module}{explanation}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}{explanation}", name=name)


def near_matches(name: str, known: Iterable[str]) -> str:
    """End of an error sentence: the closest known names, else all of them when they are few.

    >>> near_matches("MlpPolicyy", ["MlpPolicy", "MultiInput"])
    "did you mean 'MlpPolicy'?"
    """
    names = sorted(known)
    close = get_close_matches(name[:100], names, n=3, cutoff=0.6)  # of a long text it would take the square of it
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    if len(names) <= 16:
        return "known are " + ", ".join(repr(match) for match in names)
    return f"none of the {len(names)} known names is close"
