"""Distributions of actions."""

from proximo.rllte.xplore.distribution import Bernoulli as Bernoulli
from proximo.rllte.xplore.distribution import Categorical as Categorical
from proximo.rllte.xplore.distribution import DiagonalGaussian as DiagonalGaussian
