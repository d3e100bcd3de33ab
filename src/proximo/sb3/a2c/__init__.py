"""A2C and its policies."""

from proximo.agents.a2c import A2C
from proximo.networks.actor_critic import ActorCriticCnnPolicy as CnnPolicy
from proximo.networks.actor_critic import ActorCriticPolicy as MlpPolicy
from proximo.networks.actor_critic import MultiInputActorCriticPolicy as MultiInputPolicy

__all__ = ["A2C", "CnnPolicy", "MlpPolicy", "MultiInputPolicy"]
