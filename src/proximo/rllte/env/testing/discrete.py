"""rllte's module path of make_discrete_env."""

from proximo.envs.make_tensors import make_discrete_env as make_discrete_env
