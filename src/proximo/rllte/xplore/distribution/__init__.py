"""Action distributions, called as rllte calls them: ``Categorical()(logits)`` is the distribution of a batch."""

from __future__ import annotations

from proximo.rllte.xplore.distribution.base import BaseDistribution
from proximo.rllte.xplore.distribution.continuous import DiagonalGaussian, SquashedNormal
from proximo.rllte.xplore.distribution.discrete import Bernoulli, Categorical, MultiCategorical

__all__ = [
    "BaseDistribution",
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "MultiCategorical",
    "SquashedNormal",
]
