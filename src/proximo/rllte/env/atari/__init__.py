"""rllte's module path of make_atari_env, make_envpool_atari_env."""

from proximo.envs.make_tensors import make_atari_env as make_atari_env
from proximo.envs.make_tensors import make_envpool_atari_env as make_envpool_atari_env
