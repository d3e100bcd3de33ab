"""Policies with memory."""

from proximo.data import RNNStates as RNNStates
from proximo.networks.recurrent import RecurrentActorCriticCnnPolicy as RecurrentActorCriticCnnPolicy
from proximo.networks.recurrent import RecurrentActorCriticPolicy as RecurrentActorCriticPolicy
from proximo.networks.recurrent import RecurrentMultiInputActorCriticPolicy as RecurrentMultiInputActorCriticPolicy
from proximo.sb3.common.type_aliases import Schedule as Schedule
