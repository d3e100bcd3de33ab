"""Wrappers of single environments."""

from __future__ import annotations

from proximo.envs.action_masker import ActionMasker
from proximo.envs.time_feature import TimeFeatureWrapper

__all__ = ["ActionMasker", "TimeFeatureWrapper"]
