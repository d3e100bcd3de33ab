"""Evaluate a policy that is told which actions are allowed."""

from __future__ import annotations

from proximo.envs.action_masker import get_action_masks, is_masking_supported
from proximo.training.evaluation import evaluate_masked_policy as evaluate_policy

__all__ = ["evaluate_policy", "get_action_masks", "is_masking_supported"]
