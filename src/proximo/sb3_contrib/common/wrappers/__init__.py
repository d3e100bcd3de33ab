"""Wrappers of single environments."""

from __future__ import annotations

from proximo.envs.wrappers.action_masker import ActionMasker
from proximo.envs.wrappers.time_feature import TimeFeatureWrapper

__all__ = ["ActionMasker", "TimeFeatureWrapper"]
