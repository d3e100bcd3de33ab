"""Callbacks for masked training."""

from __future__ import annotations

from proximo.sb3_contrib.common.maskable.evaluation import evaluate_policy
from proximo.training.callbacks import EvalCallback, MaskableEvalCallback

__all__ = ["EvalCallback", "MaskableEvalCallback", "evaluate_policy"]
