"""Check that an environment keeps gymnasium's contract."""

from proximo.envs import check_env as check_env
