"""MaskablePPO's policies under their short names."""

from proximo.networks.maskable import MaskableActorCriticCnnPolicy as MaskableActorCriticCnnPolicy
from proximo.networks.maskable import MaskableActorCriticPolicy as MaskableActorCriticPolicy
from proximo.networks.maskable import MaskableMultiInputActorCriticPolicy as MaskableMultiInputActorCriticPolicy

CnnPolicy = MaskableActorCriticCnnPolicy
MlpPolicy = MaskableActorCriticPolicy
MultiInputPolicy = MaskableMultiInputActorCriticPolicy
