"""RecurrentPPO and its policies."""

from proximo.agents.recurrent_ppo import RecurrentPPO
from proximo.networks.recurrent import RecurrentActorCriticCnnPolicy as CnnLstmPolicy
from proximo.networks.recurrent import RecurrentActorCriticPolicy as MlpLstmPolicy
from proximo.networks.recurrent import RecurrentMultiInputActorCriticPolicy as MultiInputLstmPolicy

__all__ = ["CnnLstmPolicy", "MlpLstmPolicy", "MultiInputLstmPolicy", "RecurrentPPO"]
