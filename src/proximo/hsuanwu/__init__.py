"""Hsuanwu's module paths: replace ``hsuanwu`` by ``proximo.hsuanwu`` in imports and configurations.

The objects behind them are the library's: one PPG, one rollout memory, one collector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proximo.errors import absent_name

_LEFT_OUT = frozenset(
    [
        "DrQv2Learner",
        "IMPALALearner",
        "SACLearner",
        "OffPolicyTrainer",
        "DistributedTrainer",
        "VanillaReplayStorage",
        "NStepReplayStorage",
        "PrioritizedReplayStorage",
        "DistributedStorage",
        "NormalNoise",
        "OrnsteinUhlenbeckNoise",
        "TruncatedNormalNoise",
        "make_dmc_env",
    ]
)
_REASON = "; Proximo is an on-policy library: keep Hsuanwu for its off-policy and distributed learners and their parts"


def left_out(module: str) -> Callable[[str], Any]:
    """A module's ``__getattr__``: an error, with the reason where one of Hsuanwu's names is left out."""

    def find(name: str) -> Any:
        raise absent_name(module, name, _REASON if name in _LEFT_OUT else "")

    return find
