"""Give an environment action masks."""

from __future__ import annotations

from proximo.envs.action_masker import ActionMasker

__all__ = ["ActionMasker"]
