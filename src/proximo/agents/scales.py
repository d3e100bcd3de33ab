"""What an agent measures to choose its own scales: its learning rate, and the units that its value is told in."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from proximo.agents.attributes import AgentAttributes
from proximo.agents.checks import check_normalized_returns
from proximo.data import Array, Metrics
from proximo.functional.return_moments import ReturnMoments
from proximo.functional.schedules import FloatSchedule, KLAdaptiveRate
from proximo.networks.optimizers import update_learning_rate
from proximo.rollout.sharding import moments
from proximo.rollout.storage import RolloutBuffer, estimate_advantages, put_into_units


class ScaleSide(AgentAttributes):
    """Learning rates, and returns in units of their own deviation."""

    # -- learning rate

    def _setup_lr_schedule(self) -> None:
        if not isinstance(self.learning_rate, str):
            self.lr_schedule = FloatSchedule(self.learning_rate)
            return
        if not type(self).train.__module__.startswith("proximo."):  # type: ignore[attr-defined]
            raise ValueError(
                f"learning_rate is {self.learning_rate!r}, but {type(self).__name__} overrides train(), which would "
                "not tell it the divergence of an update; give a number or a function of the progress"
            )
        adaptive = KLAdaptiveRate.from_text("learning_rate", self.learning_rate)
        starts_over = adaptive.rate is not None and self._adapted_rate_of not in (None, self.learning_rate)
        if self._adapted_rate is not None and not starts_over:  # of a saved model, or of another target until now
            adaptive.rate = self._adapted_rate
        elif adaptive.rate is None:
            adaptive.rate = float(self.config_class.__dataclass_fields__["learning_rate"].default)
        self.lr_schedule, self._adapted_rate, self._adapted_rate_of = adaptive, adaptive.rate, self.learning_rate

    def _adapt_learning_rate(self, metrics: Metrics) -> None:
        """After an update: let a learning rate that follows the divergence take it in."""
        if isinstance(self.lr_schedule, KLAdaptiveRate):
            self.lr_schedule.follow(metrics.get("approx_kl", math.nan))
            self._adapted_rate = self.lr_schedule.rate

    def _update_learning_rate(self, optimizers: Iterable[torch.optim.Optimizer] | torch.optim.Optimizer) -> None:
        """Set and record the learning rate of the current progress; for subclasses with their own ``train``."""
        rate = self.lr_schedule(self._current_progress_remaining)
        self.logger.record("train/learning_rate", rate)  # type: ignore[attr-defined]
        for optimizer in [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else optimizers:
            update_learning_rate(optimizer, rate)

    # -- units of the value

    def _estimate_normalized(self, buffer: RolloutBuffer, dones: Array) -> None:
        """Advantages of values in units of returns, then everything in the units that these returns suggest.

        Advantages are divided by the deviation too, as the gradient of a policy is in Hessel et al. 2018.
        """
        check_normalized_returns(self.policy, buffer, self.intrinsic_reward)
        rollout = buffer.rollout
        put_into_units(rollout, self.return_moments.restore)
        estimate_advantages(buffer, dones)
        new = self._moments_with(buffer) if self.normalize_returns else ReturnMoments()  # it was switched off
        self._change_units(new)
        put_into_units(rollout, new.normalize)
        rollout.returns[:] = new.normalize(rollout.returns)
        rollout.advantages /= np.float32(new.deviation)
        for name, value in {"return_mean": new.mean, "return_std": new.deviation}.items():
            self.logger.record(f"train/{name}", value)  # type: ignore[attr-defined]

    def _moments_with(self, buffer: RolloutBuffer) -> ReturnMoments:
        """The moments with the returns of a rollout, of all processes'."""
        trained = ... if buffer.rollout.valid is None else buffer.rollout.valid
        reduce = None if buffer.rollout.share is None else self.runtime.reduce
        of_rollout = moments([buffer.returns[trained].reshape(-1)], reduce)
        return self.return_moments.updated(
            *(float(part[0]) for part in (of_rollout.mean, of_rollout.variance, of_rollout.count))
        )

    def _use_units(self, units: ReturnMoments) -> None:
        """Before weights of another model are taken over: let the value be told in the units that theirs is in."""
        if units != self.return_moments:
            check_normalized_returns(self.policy, self.rollout_buffer, self.intrinsic_reward)
            self._change_units(units)

    def _change_units(self, new: ReturnMoments) -> None:
        """Let the value be told in other units, and mean the same."""
        preserve_outputs(self.policy.value_net, self.return_moments, new)
        self.return_moments = new


@torch.no_grad()
def preserve_outputs(head: nn.Linear, old: ReturnMoments, new: ReturnMoments) -> None:
    """Let an output layer in the units of ``old`` say the same in those of ``new``: σ'·V' + μ' = σ·V + μ."""
    head.weight.mul_(old.deviation / new.deviation)
    head.bias.mul_(old.deviation).add_(old.mean - new.mean).div_(new.deviation)
