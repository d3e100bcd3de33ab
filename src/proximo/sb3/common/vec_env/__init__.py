"""Vector environments and their wrappers."""

from proximo.envs import CloudpickleWrapper as CloudpickleWrapper
from proximo.envs import DummyVecEnv as DummyVecEnv
from proximo.envs import StackedObservations as StackedObservations
from proximo.envs import SubprocVecEnv as SubprocVecEnv
from proximo.envs import VecCheckNan as VecCheckNan
from proximo.envs import VecEnv as VecEnv
from proximo.envs import VecEnvWrapper as VecEnvWrapper
from proximo.envs import VecExtractDictObs as VecExtractDictObs
from proximo.envs import VecFrameStack as VecFrameStack
from proximo.envs import VecMonitor as VecMonitor
from proximo.envs import VecNormalize as VecNormalize
from proximo.envs import VecTransposeImage as VecTransposeImage
from proximo.envs import VecVideoRecorder as VecVideoRecorder
from proximo.envs import is_vecenv_wrapped as is_vecenv_wrapped
from proximo.envs import sync_envs_normalization as sync_envs_normalization
from proximo.envs import unwrap_vec_normalize as unwrap_vec_normalize
from proximo.envs import unwrap_vec_wrapper as unwrap_vec_wrapper
from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
