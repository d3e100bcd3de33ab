"""rllte's module path of make_minigrid_env."""

from proximo.envs.make_tensors import make_minigrid_env as make_minigrid_env
