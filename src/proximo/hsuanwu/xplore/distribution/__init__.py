"""Distributions of actions: ``Categorical(logits=…)`` is that of a batch."""

from proximo.hsuanwu import left_out
from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
from proximo.networks.distributions.batches import Bernoulli as Bernoulli
from proximo.networks.distributions.batches import Categorical as Categorical
from proximo.networks.distributions.batches import DiagonalGaussian as DiagonalGaussian
from proximo.networks.distributions.batches import SquashedNormal as SquashedNormal

__getattr__ = left_out(__name__)
