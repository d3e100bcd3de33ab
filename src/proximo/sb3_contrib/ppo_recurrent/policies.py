"""RecurrentPPO's policies under their short names."""

from proximo.networks.recurrent import (
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
from proximo.networks.recurrent import RecurrentActorCriticCnnPolicy as CnnLstmPolicy
from proximo.networks.recurrent import RecurrentActorCriticPolicy as MlpLstmPolicy
from proximo.networks.recurrent import RecurrentMultiInputActorCriticPolicy as MultiInputLstmPolicy

__all__ = [
    "CnnLstmPolicy",
    "MlpLstmPolicy",
    "MultiInputLstmPolicy",
    "RecurrentActorCriticCnnPolicy",
    "RecurrentActorCriticPolicy",
    "RecurrentMultiInputActorCriticPolicy",
]
