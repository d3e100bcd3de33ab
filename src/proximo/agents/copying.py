"""Copies of an agent: ``copy.deepcopy`` and ``pickle``."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Self

UNCOPIED = (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError, pickle.PicklingError)


class CopySide:
    """What an agent is when it is copied: everything but what belongs to a training that is under way.

    A copy has its own environments, weights, optimiser and random generator, and learns on as the original would. It
    has no logger and no callbacks: ``learn`` makes and takes them.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_callback": None, "_logger": None, "_custom_logger": False}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = self.__class__.__new__(self.__class__)
        memo[id(self)] = twin
        for name, value in self.__getstate__().items():
            try:
                twin.__dict__[name] = copy.deepcopy(value, memo)
            except UNCOPIED as error:
                raise TypeError(
                    f"this {type(self).__name__} cannot be copied, because of its {name.lstrip('_')} ({error}); save() "
                    "it, and load() the file with environments of its own"
                ) from error
        return twin
