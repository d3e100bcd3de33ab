"""What every learner reports."""

from __future__ import annotations

import math
import warnings

from proximo.data import Metrics
from proximo.functional.statistics import explained_variance
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.sharding import Reduce, moments
from proximo.rollout.storage import RolloutBuffer


def common_metrics(policy: ActorCriticPolicy, buffer: RolloutBuffer, reduce: Reduce | None = None) -> Metrics:
    """How much of the returns the values explained, where rows train, and the mean deviation of continuous actions.

    ``reduce`` sums over processes, where they learn each from its own rows.
    """
    trained = ... if buffer.rollout.valid is None else buffer.rollout.valid
    values, returns = buffer.values[trained], buffer.returns[trained]
    if buffer.rollout.share is None:
        explained = explained_variance(values, returns)
    else:
        unexplained, variance = moments([(returns - values).reshape(-1), returns.reshape(-1)], reduce).variance
        explained = math.nan if variance == 0.0 else float(1.0 - unexplained / variance)
    metrics = {"explained_variance": explained}
    log_std = getattr(policy, "log_std", None)
    if log_std is not None and log_std.numel():  # hybrid actions may have no continuous part
        metrics["std"] = float(log_std.detach().exp().mean())
    return metrics


def count_skipped(metrics: Metrics, skipped: int, minibatches: int) -> None:
    """Warn of minibatches that ``on_non_finite="skip"`` left out, and add their number to the metrics."""
    if skipped:
        warnings.warn(f"{skipped} of {minibatches} minibatches gave NaN or infinity and were skipped", stacklevel=3)
        metrics["skipped_minibatches"] = metrics.get("skipped_minibatches", 0.0) + float(skipped)
