"""RecurrentPPO."""

from proximo.agents.recurrent_ppo import RecurrentPPO
from proximo.data import RNNStates
from proximo.sb3.common.type_aliases import GymEnv, MaybeCallback, Schedule

__all__ = ["GymEnv", "MaybeCallback", "RNNStates", "RecurrentPPO", "Schedule"]
