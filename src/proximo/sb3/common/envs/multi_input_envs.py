"""An environment of Dict observations."""

from proximo.envs.testing.environments import SimpleMultiObsEnv as SimpleMultiObsEnv
from proximo.sb3.common.type_aliases import GymStepReturn as GymStepReturn
