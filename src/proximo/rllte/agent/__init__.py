"""rllte's on-policy agents."""

from __future__ import annotations

from typing import Any

from proximo.errors import absent_name
from proximo.rllte.agent.a2c import A2C as A2C
from proximo.rllte.agent.daac import DAAC as DAAC
from proximo.rllte.agent.drac import DrAC as DrAC
from proximo.rllte.agent.drdaac import DrDAAC as DrDAAC
from proximo.rllte.agent.ppg import PPG as PPG
from proximo.rllte.agent.ppo import PPO as PPO

_ABSENT = frozenset({"DDPG", "DQN", "DrQv2", "IMPALA", "SAC", "SACDiscrete", "TD3"})


def __getattr__(name: str) -> Any:
    explanation = (
        f", which has A2C, DAAC, DrAC, DrDAAC, PPG and PPO; keep `from rllte.agent import {name}` for it, or subclass "
        "OnPolicyAgent for an on-policy agent of your own"
    )
    raise absent_name(__name__, name, explanation if name in _ABSENT else "")
