"""rllte's module path of BaseDistribution."""

from proximo.networks.distributions.batches import BaseDistribution as BaseDistribution
