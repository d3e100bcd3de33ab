"""Atari preprocessing."""

from proximo.envs.wrappers.atari import AtariWrapper as AtariWrapper
from proximo.envs.wrappers.atari import ClipRewardEnv as ClipRewardEnv
from proximo.envs.wrappers.atari import EpisodicLifeEnv as EpisodicLifeEnv
from proximo.envs.wrappers.atari import FireResetEnv as FireResetEnv
from proximo.envs.wrappers.atari import MaxAndSkipEnv as MaxAndSkipEnv
from proximo.envs.wrappers.atari import NoopResetEnv as NoopResetEnv
from proximo.envs.wrappers.atari import StickyActionEnv as StickyActionEnv
from proximo.envs.wrappers.atari import WarpFrame as WarpFrame
from proximo.sb3.common.type_aliases import AtariResetReturn as AtariResetReturn
from proximo.sb3.common.type_aliases import AtariStepReturn as AtariStepReturn
