"""Check that an environment keeps gymnasium's contract."""

from __future__ import annotations

from proximo.envs import check_env

__all__ = ["check_env"]
