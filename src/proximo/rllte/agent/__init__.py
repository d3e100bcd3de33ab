"""rllte's on-policy agents."""

from __future__ import annotations

from typing import Any

from proximo.rllte.agent.a2c import A2C as A2C
from proximo.rllte.agent.ppg import PPG as PPG
from proximo.rllte.agent.ppo import PPO as PPO

_ABSENT = frozenset({"DAAC", "DDPG", "DrAC", "DrDAAC", "DrQv2", "IMPALA", "SAC", "SACDiscrete", "TD3"})


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        # an AttributeError would be replaced by Python's own, wordless ImportError
        raise ImportError(
            f"{name} is not in proximo.rllte.agent, which has A2C, PPG and PPO; keep `from rllte.agent import {name}` "
            "for it, or subclass OnPolicyAgent for an on-policy agent of your own"
        )
    raise AttributeError(f"module 'proximo.rllte.agent' has no attribute {name!r}")
