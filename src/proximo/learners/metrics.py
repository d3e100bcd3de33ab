"""What every learner reports."""

from __future__ import annotations

from proximo.data import Metrics
from proximo.functional.statistics import explained_variance
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.rollout.storage import RolloutBuffer


def common_metrics(policy: ActorCriticPolicy, buffer: RolloutBuffer) -> Metrics:
    """How much of the returns the values explained, where rows train, and the mean deviation of continuous actions."""
    trained = ... if buffer.rollout.valid is None else buffer.rollout.valid
    metrics = {"explained_variance": explained_variance(buffer.values[trained], buffer.returns[trained])}
    log_std = getattr(policy, "log_std", None)
    if log_std is not None and log_std.numel():  # hybrid actions may have no continuous part
        metrics["std"] = float(log_std.detach().exp().mean())
    return metrics
