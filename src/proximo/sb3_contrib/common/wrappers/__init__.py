"""Wrappers of single environments."""

from proximo.envs.wrappers.action_masker import ActionMasker as ActionMasker
from proximo.envs.wrappers.time_feature import TimeFeatureWrapper as TimeFeatureWrapper
from proximo.other_libraries import names_from

__getattr__ = names_from(__name__, {})
