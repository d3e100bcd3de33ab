"""Action distributions."""

from __future__ import annotations

from proximo.networks.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
    SquashedDiagGaussianDistribution,
    StateDependentNoiseDistribution,
    TanhBijector,
    kl_divergence,
    make_proba_distribution,
    sum_independent_dims,
)

__all__ = [
    "BernoulliDistribution",
    "CategoricalDistribution",
    "DiagGaussianDistribution",
    "Distribution",
    "MultiCategoricalDistribution",
    "SquashedDiagGaussianDistribution",
    "StateDependentNoiseDistribution",
    "TanhBijector",
    "kl_divergence",
    "make_proba_distribution",
    "sum_independent_dims",
]
