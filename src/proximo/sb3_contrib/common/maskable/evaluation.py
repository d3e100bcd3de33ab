"""Evaluate a policy that is told which actions are allowed."""

from functools import partial

from proximo.analysis import evaluation
from proximo.envs.wrappers.action_masker import get_action_masks, is_masking_supported

__all__ = ["evaluate_policy", "get_action_masks", "is_masking_supported"]

evaluate_policy = partial(evaluation.evaluate_policy, use_masking=True)
