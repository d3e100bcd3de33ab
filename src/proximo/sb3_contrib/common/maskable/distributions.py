"""Distributions of masked actions; every distribution of discrete choices in the library takes masks."""

from proximo.networks.distributions import CategoricalDistribution, MultiCategoricalDistribution
from proximo.networks.distributions import Distribution as Distribution
from proximo.networks.distributions import MaskableBernoulliDistribution as MaskableBernoulliDistribution
from proximo.networks.distributions.masked import MaskableCategorical as MaskableCategorical
from proximo.networks.distributions.masked import MaybeMasks as MaybeMasks
from proximo.networks.distributions.masked import make_masked_proba_distribution as make_masked_proba_distribution

MaskableCategoricalDistribution = CategoricalDistribution
MaskableDistribution = Distribution
MaskableMultiCategoricalDistribution = MultiCategoricalDistribution
