"""rllte's module path of PPO."""

from proximo.rllte.agent.ppo import PPO as PPO
