"""Callbacks for masked training."""

from __future__ import annotations

from proximo.analysis.evaluation import evaluate_masked_policy as evaluate_policy
from proximo.training.callbacks import EvalCallback, MaskableEvalCallback

__all__ = ["EvalCallback", "MaskableEvalCallback", "evaluate_policy"]
