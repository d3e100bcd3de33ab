"""PPO's policies under their short names."""

from proximo.networks.actor_critic import ActorCriticCnnPolicy, ActorCriticPolicy, MultiInputActorCriticPolicy
from proximo.networks.actor_critic import ActorCriticCnnPolicy as CnnPolicy
from proximo.networks.actor_critic import ActorCriticPolicy as MlpPolicy
from proximo.networks.actor_critic import MultiInputActorCriticPolicy as MultiInputPolicy

__all__ = [
    "ActorCriticCnnPolicy",
    "ActorCriticPolicy",
    "CnnPolicy",
    "MlpPolicy",
    "MultiInputActorCriticPolicy",
    "MultiInputPolicy",
]
