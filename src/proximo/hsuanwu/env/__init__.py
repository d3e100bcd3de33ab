"""Makers of vector environments that take and give tensors."""

from proximo.rllte.env import TorchVecEnv as TorchVecEnv
from proximo.rllte.env import make_atari_env as make_atari_env
from proximo.rllte.env import make_bullet_env as make_bullet_env
from proximo.rllte.env import make_envpool_atari_env as make_envpool_atari_env
from proximo.rllte.env import make_envpool_procgen_env as make_envpool_procgen_env
from proximo.rllte.env import make_minigrid_env as make_minigrid_env
from proximo.rllte.env import make_procgen_env as make_procgen_env
from proximo.rllte.env import make_rllte_env as make_rllte_env
