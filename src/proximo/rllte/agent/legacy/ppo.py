"""rllte's module path of PPO."""

from __future__ import annotations

from proximo.rllte.agent.ppo import PPO as PPO
