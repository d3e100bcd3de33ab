"""PyBullet's client, which looks every function of the simulator up again, made to remember them.

A step of a walking robot calls dozens of them, and looking them up takes time that the simulator does not need.
"""

from __future__ import annotations

import functools
import sys
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium as gym


def remember_bullet_functions(env: gym.Env[Any, Any]) -> None:
    """Quicken the client of an environment that has been reset; of environments without one, nothing changes."""
    module = sys.modules.get("pybullet_utils.bullet_client")
    if module is not None:
        for value in vars(env.unwrapped).values():
            if type(value) is module.BulletClient:
                value.__class__ = _remembering_client(module)


@cache
def _remembering_client(module: ModuleType) -> type:
    client_class: Any = module.BulletClient

    class RememberingClient(client_class):
        """A client on which a function, once looked up, stays: Python then no longer asks ``__getattr__`` for it."""

        def __getattr__(self, name: str) -> Any:
            attribute = super().__getattr__(name)
            if name == "disconnect":  # the number of this connection may soon be another client's
                self._forget()
            elif isinstance(attribute, functools.partial):
                setattr(self, name, attribute)
            return attribute

        def _forget(self) -> None:
            for name in [name for name, value in vars(self).items() if isinstance(value, functools.partial)]:
                delattr(self, name)

    return RememberingClient
