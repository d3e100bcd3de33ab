"""Discrete actions: one choice, several choices, switches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    Distribution,
    MultiCategoricalDistribution,
)
from proximo.rllte.xplore.distribution.base import BaseDistribution


class Categorical(BaseDistribution):
    """One choice; called with ``logits`` [batch, choice]."""

    def _make(self, logits: Tensor) -> Distribution:
        return CategoricalDistribution(logits.shape[-1]).proba_distribution(logits)

    @property
    def logits(self) -> Tensor:
        """Normalised: the log-probabilities."""
        return self.inner.log_probs

    @property
    def probs(self) -> Tensor:
        return self.logits.exp()


class MultiCategorical(BaseDistribution):
    """Several choices; called with a sequence of logits, one [batch, choice] for each."""

    def _make(self, logits: Sequence[Tensor]) -> Distribution:
        if isinstance(logits, Tensor):
            raise TypeError(
                f"MultiCategorical takes a sequence of logits, one tensor per choice, got one of shape "
                f"{tuple(logits.shape)}; split it: logits.split(sizes, dim=1)"
            )
        sizes = [part.shape[-1] for part in logits]
        return MultiCategoricalDistribution(sizes).proba_distribution(torch.cat(list(logits), dim=-1))

    @property
    def logits(self) -> tuple[Tensor, ...]:
        return tuple(part.log_probs for part in self.inner.parts)

    @property
    def probs(self) -> tuple[Tensor, ...]:
        return tuple(part.exp() for part in self.logits)


class Bernoulli(BaseDistribution):
    """Switches; called with ``logits`` [batch, switch]."""

    def _make(self, logits: Tensor) -> Distribution:
        return BernoulliDistribution(logits.shape[-1]).proba_distribution(logits)

    @property
    def logits(self) -> Tensor:
        return self.inner.action_logits

    @property
    def probs(self) -> Tensor:
        return torch.sigmoid(self.logits)
