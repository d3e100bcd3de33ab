"""MaskablePPO and its policies."""

from proximo.agents.maskable_ppo import MaskablePPO as MaskablePPO
from proximo.other_libraries import names_from
from proximo.sb3_contrib.ppo_mask.policies import CnnPolicy as CnnPolicy
from proximo.sb3_contrib.ppo_mask.policies import MlpPolicy as MlpPolicy
from proximo.sb3_contrib.ppo_mask.policies import MultiInputPolicy as MultiInputPolicy

__getattr__ = names_from(__name__, {})
