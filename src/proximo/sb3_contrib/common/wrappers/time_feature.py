"""Show how much of the episode is left."""

from proximo.data import Observation as TimeFeatureObs
from proximo.envs.wrappers.time_feature import TimeFeatureWrapper

__all__ = ["TimeFeatureObs", "TimeFeatureWrapper"]
