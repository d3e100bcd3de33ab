"""Evaluate a policy that is told which actions are allowed."""

from __future__ import annotations

from typing import Any

from proximo.analysis import evaluation
from proximo.envs.wrappers.action_masker import get_action_masks, is_masking_supported

__all__ = ["evaluate_policy", "get_action_masks", "is_masking_supported"]


def evaluate_policy(
    model: evaluation.Predictor,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: evaluation.StepCallback | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
    use_masking: bool = True,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """:func:`proximo.analysis.evaluation.evaluate_policy`, which asks for masks unless ``use_masking`` is False."""
    return evaluation.evaluate_policy(
        model,
        env,
        n_eval_episodes,
        deterministic,
        render,
        callback,
        reward_threshold,
        return_episode_rewards,
        warn,
        use_masking,
    )
