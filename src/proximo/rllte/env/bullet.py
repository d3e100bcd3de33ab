"""rllte's module path of make_bullet_env."""

from proximo.envs.make_tensors import make_bullet_env as make_bullet_env
