"""The door for sb3-contrib's scripts: replace ``sb3_contrib`` by ``proximo.sb3_contrib`` in their imports.

Every module here only names things of the house under the paths that such scripts import.
"""

from __future__ import annotations

from typing import Any

from proximo.agents.maskable_ppo import MaskablePPO as MaskablePPO
from proximo.agents.recurrent_ppo import RecurrentPPO as RecurrentPPO
from proximo.agents.trpo import TRPO as TRPO

__all__ = ["TRPO", "MaskablePPO", "RecurrentPPO", "__version__"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

_ABSENT = frozenset({"ARS", "CrossQ", "QRDQN", "TQC"})


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        # an AttributeError would be replaced by Python's own, wordless ImportError
        raise ImportError(
            f"{name} is not in proximo.sb3_contrib: Proximo is an on-policy library, which has MaskablePPO, "
            f"RecurrentPPO and TRPO; keep `from sb3_contrib import {name}` for it"
        )
    raise AttributeError(f"module 'proximo.sb3_contrib' has no attribute {name!r}")
