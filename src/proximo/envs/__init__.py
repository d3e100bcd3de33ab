"""Environments: vector environments, their wrappers, and one entry for every kind of environment."""

from __future__ import annotations

from proximo.envs.adapters.as_vec_env import as_vec_env
from proximo.envs.adapters.env_pool import make_env_pool, make_env_pool_atari
from proximo.envs.adapters.procgen import make_procgen_env
from proximo.envs.checker import check_env
from proximo.envs.make import is_wrapped, make_atari_env, make_env, make_vec_env, unwrap_wrapper
from proximo.envs.rendering import tile_images, write_video
from proximo.envs.vector.check_nan import VecCheckNan
from proximo.envs.vector.dummy import DummyVecEnv
from proximo.envs.vector.extract_dict import VecExtractDictObs
from proximo.envs.vector.frame_stack import StackedObservations, VecFrameStack
from proximo.envs.vector.normalize import VecNormalize, sync_envs_normalization, unwrap_vec_normalize
from proximo.envs.vector.transpose import VecTransposeImage
from proximo.envs.vector.vec_env import (
    CloudpickleWrapper,
    StepTransform,
    VecEnv,
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
    VecEnvWrapper,
    arrays_from_step,
    is_vecenv_wrapped,
    unwrap_vec_wrapper,
)
from proximo.envs.vector.vec_monitor import VecMonitor
from proximo.envs.vector.video import VecVideoRecorder
from proximo.envs.workers.subproc import SubprocVecEnv
from proximo.envs.wrappers.action_masker import ActionMasker, get_action_masks, is_masking_supported
from proximo.envs.wrappers.atari import (
    AtariWrapper,
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
    StickyActionEnv,
    WarpFrame,
)
from proximo.envs.wrappers.minigrid import wrap_minigrid
from proximo.envs.wrappers.monitor import (
    LoadMonitorResultsError,
    Monitor,
    ResultsWriter,
    get_monitor_files,
    load_results,
)
from proximo.envs.wrappers.time_feature import TimeFeatureWrapper

__all__ = [
    "ActionMasker",
    "AtariWrapper",
    "ClipRewardEnv",
    "CloudpickleWrapper",
    "DummyVecEnv",
    "EpisodicLifeEnv",
    "FireResetEnv",
    "LoadMonitorResultsError",
    "MaxAndSkipEnv",
    "Monitor",
    "NoopResetEnv",
    "ResultsWriter",
    "StackedObservations",
    "StepTransform",
    "StickyActionEnv",
    "SubprocVecEnv",
    "TimeFeatureWrapper",
    "VecCheckNan",
    "VecEnv",
    "VecEnvIndices",
    "VecEnvObs",
    "VecEnvStepReturn",
    "VecEnvWrapper",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "VecVideoRecorder",
    "WarpFrame",
    "arrays_from_step",
    "as_vec_env",
    "check_env",
    "get_action_masks",
    "get_monitor_files",
    "is_masking_supported",
    "is_vecenv_wrapped",
    "is_wrapped",
    "load_results",
    "make_atari_env",
    "make_env",
    "make_env_pool",
    "make_env_pool_atari",
    "make_procgen_env",
    "make_vec_env",
    "sync_envs_normalization",
    "tile_images",
    "unwrap_vec_normalize",
    "unwrap_vec_wrapper",
    "unwrap_wrapper",
    "wrap_minigrid",
    "write_video",
]
