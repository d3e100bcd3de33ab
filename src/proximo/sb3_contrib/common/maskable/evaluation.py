"""Evaluate a policy that is told which actions are allowed."""

from __future__ import annotations

from proximo.analysis.evaluation import evaluate_masked_policy as evaluate_policy
from proximo.envs.wrappers.action_masker import get_action_masks, is_masking_supported

__all__ = ["evaluate_policy", "get_action_masks", "is_masking_supported"]
