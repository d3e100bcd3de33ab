"""Continuous actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proximo.networks.distributions import DiagGaussianDistribution, Distribution, SquashedDiagGaussianDistribution
from proximo.rllte.xplore.distribution.base import BaseDistribution


class DiagonalGaussian(BaseDistribution):
    """Independent normals; called with means and deviations, ``mu`` [batch, action] and ``sigma`` of that shape or one
    that broadcasts to it."""

    distribution_class = DiagGaussianDistribution

    def _make(self, mu: Tensor, sigma: Tensor) -> Distribution:
        return self.distribution_class(mu.shape[-1]).proba_distribution(
            mu, torch.as_tensor(sigma, device=mu.device).log()
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """As ``sample``, with gradients to the parameters."""
        return self._draw(sample_shape)

    @property
    def mu(self) -> Tensor:
        return self.inner.mean_actions

    @property
    def sigma(self) -> Tensor:
        return self.inner.log_std.exp()

    @property
    def stddev(self) -> Tensor:
        return self.sigma.expand_as(self.mu)

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()


class SquashedNormal(DiagonalGaussian):
    """The tanh of independent normals, so that actions lie in (−1, 1); ``mean`` is the tanh of ``mu``.

    ``stddev`` and ``variance`` are those before the tanh. A divergence of two is that of their normals, which the same
    tanh leaves unchanged.
    """

    distribution_class = SquashedDiagGaussianDistribution
