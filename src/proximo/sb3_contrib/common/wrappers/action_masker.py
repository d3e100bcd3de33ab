"""Give an environment action masks."""

from __future__ import annotations

from proximo.envs.wrappers.action_masker import ActionMasker

__all__ = ["ActionMasker"]
