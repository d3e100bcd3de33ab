"""MaskablePPO and its policies."""

from proximo.agents.maskable_ppo import MaskablePPO
from proximo.networks.maskable import MaskableActorCriticCnnPolicy as CnnPolicy
from proximo.networks.maskable import MaskableActorCriticPolicy as MlpPolicy
from proximo.networks.maskable import MaskableMultiInputActorCriticPolicy as MultiInputPolicy

__all__ = ["CnnPolicy", "MaskablePPO", "MlpPolicy", "MultiInputPolicy"]
