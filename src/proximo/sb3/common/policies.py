"""Policies."""

from proximo.networks.actor_critic import ActorCriticCnnPolicy as ActorCriticCnnPolicy
from proximo.networks.actor_critic import ActorCriticPolicy as ActorCriticPolicy
from proximo.networks.actor_critic import BasePolicy as BasePolicy
from proximo.networks.actor_critic import MultiInputActorCriticPolicy as MultiInputActorCriticPolicy
from proximo.other_libraries import names_from
from proximo.sb3.common.type_aliases import PyTorchObs as PyTorchObs
from proximo.sb3.common.type_aliases import Schedule as Schedule

BaseModel = BasePolicy

_ALSO = ("common.torch_layers", "common.distributions", "common.preprocessing", "common.utils")
__getattr__ = names_from(__name__, {"ContinuousCritic": "stable_baselines3.common.policies"}, _ALSO)
