"""rllte's module path of make_envpool_procgen_env, make_procgen_env."""

from proximo.envs.make_tensors import make_envpool_procgen_env as make_envpool_procgen_env
from proximo.envs.make_tensors import make_procgen_env as make_procgen_env
