"""Action distributions, called as rllte calls them: ``Categorical()(logits)`` is the distribution of a batch."""

from proximo.rllte.xplore.distribution.base import BaseDistribution as BaseDistribution
from proximo.rllte.xplore.distribution.continuous import DiagonalGaussian as DiagonalGaussian
from proximo.rllte.xplore.distribution.continuous import SquashedNormal as SquashedNormal
from proximo.rllte.xplore.distribution.discrete import Bernoulli as Bernoulli
from proximo.rllte.xplore.distribution.discrete import Categorical as Categorical
from proximo.rllte.xplore.distribution.discrete import MultiCategorical as MultiCategorical
