"""Where gym's environments were converted; gymnasium's pass, others are refused with advice."""

from proximo.envs.vector.dummy import require_gymnasium_env as _patch_env

__all__ = ["_patch_env"]
