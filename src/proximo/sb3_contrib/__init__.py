"""For sb3-contrib's scripts: replace ``sb3_contrib`` by ``proximo.sb3_contrib`` in their imports.

The modules name what the library has under the paths that such scripts import; code is here only for what nothing
else needs.
"""

from __future__ import annotations

from typing import Any

from proximo.agents.maskable_ppo import MaskablePPO as MaskablePPO
from proximo.agents.recurrent_ppo import RecurrentPPO as RecurrentPPO
from proximo.agents.trpo import TRPO as TRPO
from proximo.errors import absent_name

__all__ = ["TRPO", "MaskablePPO", "RecurrentPPO", "__version__"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

_ABSENT = frozenset({"ARS", "CrossQ", "QRDQN", "TQC"})


def __getattr__(name: str) -> Any:
    explanation = (
        ": Proximo is an on-policy library, which has MaskablePPO, RecurrentPPO and TRPO; keep "
        f"`from sb3_contrib import {name}` for it"
    )
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
