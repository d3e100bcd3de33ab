"""Policies for masked actions."""

from proximo.networks.maskable import MaskableActorCriticCnnPolicy as MaskableActorCriticCnnPolicy
from proximo.networks.maskable import MaskableActorCriticPolicy as MaskableActorCriticPolicy
from proximo.networks.maskable import MaskableMultiInputActorCriticPolicy as MaskableMultiInputActorCriticPolicy
from proximo.sb3.common.type_aliases import PyTorchObs as PyTorchObs
from proximo.sb3.common.type_aliases import Schedule as Schedule
