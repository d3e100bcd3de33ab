"""Distributions of masked actions; every distribution of discrete choices in the library takes masks."""

from proximo.networks.distributions import CategoricalDistribution as MaskableCategoricalDistribution
from proximo.networks.distributions import Distribution, MaskableBernoulliDistribution
from proximo.networks.distributions import Distribution as MaskableDistribution
from proximo.networks.distributions import MultiCategoricalDistribution as MaskableMultiCategoricalDistribution
from proximo.networks.distributions.masked import MaskableCategorical, MaybeMasks, make_masked_proba_distribution

__all__ = [
    "Distribution",
    "MaskableBernoulliDistribution",
    "MaskableCategorical",
    "MaskableCategoricalDistribution",
    "MaskableDistribution",
    "MaskableMultiCategoricalDistribution",
    "MaybeMasks",
    "make_masked_proba_distribution",
]
