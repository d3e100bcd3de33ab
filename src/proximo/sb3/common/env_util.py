"""Make vector environments."""

from proximo.envs import AtariWrapper as AtariWrapper
from proximo.envs import DummyVecEnv as DummyVecEnv
from proximo.envs import Monitor as Monitor
from proximo.envs import SubprocVecEnv as SubprocVecEnv
from proximo.envs import VecEnv as VecEnv
from proximo.envs import is_wrapped as is_wrapped
from proximo.envs import make_atari_env as make_atari_env
from proximo.envs import make_vec_env as make_vec_env
from proximo.envs import unwrap_wrapper as unwrap_wrapper
