"""rllte's on-policy agents."""

from __future__ import annotations

from typing import Any

from proximo.rllte.agent.a2c import A2C as A2C
from proximo.rllte.agent.daac import DAAC as DAAC
from proximo.rllte.agent.drac import DrAC as DrAC
from proximo.rllte.agent.drdaac import DrDAAC as DrDAAC
from proximo.rllte.agent.ppg import PPG as PPG
from proximo.rllte.agent.ppo import PPO as PPO
from proximo.rllte.paths import absent


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
