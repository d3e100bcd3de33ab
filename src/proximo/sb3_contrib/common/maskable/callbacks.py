"""Callbacks for masked training."""

from __future__ import annotations

from proximo.training.callbacks import EvalCallback, MaskableEvalCallback
from proximo.training.evaluation import evaluate_masked_policy as evaluate_policy

__all__ = ["EvalCallback", "MaskableEvalCallback", "evaluate_policy"]
