"""rllte's on-policy agents."""

from __future__ import annotations

from proximo.rllte.agent.a2c import A2C as A2C
from proximo.rllte.agent.ppg import PPG as PPG
from proximo.rllte.agent.ppo import PPO as PPO
