"""A2C's policies under their short names."""

from proximo.networks.actor_critic import ActorCriticCnnPolicy as ActorCriticCnnPolicy
from proximo.networks.actor_critic import ActorCriticPolicy as ActorCriticPolicy
from proximo.networks.actor_critic import MultiInputActorCriticPolicy as MultiInputActorCriticPolicy

CnnPolicy = ActorCriticCnnPolicy
MlpPolicy = ActorCriticPolicy
MultiInputPolicy = MultiInputActorCriticPolicy
