"""A2C and its policies."""

from proximo.agents.a2c import A2C as A2C
from proximo.other_libraries import names_from
from proximo.sb3.a2c.policies import CnnPolicy as CnnPolicy
from proximo.sb3.a2c.policies import MlpPolicy as MlpPolicy
from proximo.sb3.a2c.policies import MultiInputPolicy as MultiInputPolicy

__getattr__ = names_from(__name__, {})
