"""TRPO and its policies."""

from proximo.agents.trpo import TRPO as TRPO
from proximo.other_libraries import names_from
from proximo.sb3_contrib.trpo.policies import CnnPolicy as CnnPolicy
from proximo.sb3_contrib.trpo.policies import MlpPolicy as MlpPolicy
from proximo.sb3_contrib.trpo.policies import MultiInputPolicy as MultiInputPolicy

__getattr__ = names_from(__name__, {})
