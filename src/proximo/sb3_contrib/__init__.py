"""For sb3-contrib's scripts: replace ``sb3_contrib`` by ``proximo.sb3_contrib`` in their imports.

The modules name what the library has under the paths that such scripts import; code is here only for what nothing
else needs.
"""

from __future__ import annotations

from proximo.agents.maskable_ppo import MaskablePPO as MaskablePPO
from proximo.agents.recurrent_ppo import RecurrentPPO as RecurrentPPO
from proximo.agents.trpo import TRPO as TRPO
from proximo.other_libraries import answer_missing_modules, names_from

__all__ = ["TRPO", "MaskablePPO", "RecurrentPPO", "__version__"]

__version__ = "2.9.2"  # the version whose names are mirrored: scripts compare it to know what they may call

answer_missing_modules("proximo.sb3_contrib", "sb3_contrib")
_OTHERS = ("ARS", "CrossQ", "QRDQN", "TQC")
_MODULES = {name.lower(): "sb3_contrib" for name in _OTHERS}
__getattr__ = names_from(__name__, {**_MODULES, **{name: f"sb3_contrib.{name.lower()}" for name in _OTHERS}})
