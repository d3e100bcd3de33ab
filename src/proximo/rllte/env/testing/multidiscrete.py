"""rllte's module path of make_multidiscrete_env."""

from proximo.envs.make_tensors import make_multidiscrete_env as make_multidiscrete_env
