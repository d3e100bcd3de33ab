"""rllte's module path of Atari's wrappers."""

from proximo.envs.wrappers.atari import EpisodicLifeEnv as EpisodicLifeEnv
from proximo.envs.wrappers.atari import FireResetEnv as FireResetEnv
from proximo.envs.wrappers.atari import MaxAndSkipEnv as MaxAndSkipEnv
from proximo.envs.wrappers.atari import NoopResetEnv as NoopResetEnv
