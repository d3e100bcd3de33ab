"""A goal environment."""

from proximo.envs.testing.environments import BitFlippingEnv as BitFlippingEnv
from proximo.sb3.common.type_aliases import GymStepReturn as GymStepReturn
