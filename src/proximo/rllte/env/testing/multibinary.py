"""rllte's module path of make_multibinary_env."""

from proximo.envs.make_tensors import make_multibinary_env as make_multibinary_env
