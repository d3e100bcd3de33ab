"""PPO and its policies."""

from proximo.agents.ppo import PPO as PPO
from proximo.other_libraries import names_from
from proximo.sb3.ppo.policies import CnnPolicy as CnnPolicy
from proximo.sb3.ppo.policies import MlpPolicy as MlpPolicy
from proximo.sb3.ppo.policies import MultiInputPolicy as MultiInputPolicy

__getattr__ = names_from(__name__, {})
