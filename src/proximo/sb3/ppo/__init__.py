"""PPO and its policies."""

from proximo.agents.ppo import PPO
from proximo.networks.actor_critic import ActorCriticCnnPolicy as CnnPolicy
from proximo.networks.actor_critic import ActorCriticPolicy as MlpPolicy
from proximo.networks.actor_critic import MultiInputActorCriticPolicy as MultiInputPolicy

__all__ = ["PPO", "CnnPolicy", "MlpPolicy", "MultiInputPolicy"]
