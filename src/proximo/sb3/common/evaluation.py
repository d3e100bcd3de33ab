"""Evaluate a policy."""

from proximo.analysis.evaluation import evaluate_policy as evaluate_policy
