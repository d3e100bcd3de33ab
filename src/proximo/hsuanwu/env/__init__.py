"""Makers of vector environments that take and give tensors."""

from proximo.envs.adapters.torch_vec_env import TorchVecEnv as TorchVecEnv
from proximo.envs.make_tensors import make_atari_env as make_atari_env
from proximo.envs.make_tensors import make_bullet_env as make_bullet_env
from proximo.envs.make_tensors import make_envpool_atari_env as make_envpool_atari_env
from proximo.envs.make_tensors import make_envpool_procgen_env as make_envpool_procgen_env
from proximo.envs.make_tensors import make_minigrid_env as make_minigrid_env
from proximo.envs.make_tensors import make_procgen_env as make_procgen_env
from proximo.envs.make_tensors import make_tensor_env
from proximo.hsuanwu import left_out

make_rllte_env = make_tensor_env

__getattr__ = left_out(__name__)
