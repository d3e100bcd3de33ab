"""Environments whose best action is their observation."""

from proximo.envs.testing.environments import FakeImageEnv as FakeImageEnv
from proximo.envs.testing.environments import IdentityEnv as IdentityEnv
from proximo.envs.testing.environments import IdentityEnvBox as IdentityEnvBox
from proximo.envs.testing.environments import IdentityEnvMultiBinary as IdentityEnvMultiBinary
from proximo.envs.testing.environments import IdentityEnvMultiDiscrete as IdentityEnvMultiDiscrete
from proximo.sb3.common.type_aliases import GymStepReturn as GymStepReturn
