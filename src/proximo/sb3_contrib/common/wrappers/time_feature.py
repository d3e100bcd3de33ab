"""Show how much of the episode is left."""

from __future__ import annotations

from proximo.data import Observation as TimeFeatureObs
from proximo.envs.wrappers.time_feature import TimeFeatureWrapper

__all__ = ["TimeFeatureObs", "TimeFeatureWrapper"]
