"""rllte's module path of make_box_env."""

from proximo.envs.make_tensors import make_box_env as make_box_env
