"""RecurrentPPO and its policies."""

from proximo.agents.recurrent_ppo import RecurrentPPO as RecurrentPPO
from proximo.other_libraries import names_from
from proximo.sb3_contrib.ppo_recurrent.policies import CnnLstmPolicy as CnnLstmPolicy
from proximo.sb3_contrib.ppo_recurrent.policies import MlpLstmPolicy as MlpLstmPolicy
from proximo.sb3_contrib.ppo_recurrent.policies import MultiInputLstmPolicy as MultiInputLstmPolicy

__getattr__ = names_from(__name__, {})
