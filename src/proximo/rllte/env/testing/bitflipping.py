"""rllte's module path of make_bitflipping_env."""

from proximo.envs.make_tensors import make_bitflipping_env as make_bitflipping_env
