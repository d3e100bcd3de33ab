"""The path under which rllte keeps PPO and A2C."""

from proximo.rllte.agent.a2c import A2C as A2C
from proximo.rllte.agent.ppo import PPO as PPO
