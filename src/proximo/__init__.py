"""Proximo: on-policy reinforcement learning in PyTorch, fast on a CPU.

>>> from proximo import PPO
>>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, seed=1).learn(128)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proximo.agents.a2c import A2C
    from proximo.agents.daac import DAAC
    from proximo.agents.maskable_ppo import MaskablePPO
    from proximo.agents.ppg import PPG
    from proximo.agents.ppo import PPO
    from proximo.agents.recurrent_ppo import RecurrentPPO
    from proximo.agents.trpo import TRPO
    from proximo.analysis.evaluation import evaluate, evaluate_policy
    from proximo.envs import make_vec_env
    from proximo.version import __version__

__all__ = [
    "A2C",
    "DAAC",
    "PPG",
    "PPO",
    "TRPO",
    "MaskablePPO",
    "RecurrentPPO",
    "__version__",
    "evaluate",
    "evaluate_policy",
    "make_vec_env",
]

ALGORITHMS = {
    "ppo": "PPO",
    "ppg": "PPG",
    "a2c": "A2C",
    "trpo": "TRPO",
    "daac": "DAAC",
    "recurrent_ppo": "RecurrentPPO",
    "maskable_ppo": "MaskablePPO",
}
"""The classes by the names that modules, preset files and the command line use; the first is the default there."""

# resolved on first use, so that `import proximo` and `proximo --help` do not wait for PyTorch
_HOMES = {
    **{name: f"proximo.agents.{module}" for module, name in ALGORITHMS.items()},
    "make_vec_env": "proximo.envs",
    "evaluate": "proximo.analysis.evaluation",
    "evaluate_policy": "proximo.analysis.evaluation",
    "__version__": "proximo.version",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proximo' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
