"""Evaluate a policy."""

from __future__ import annotations

from proximo.analysis.evaluation import evaluate_policy

__all__ = ["evaluate_policy"]
