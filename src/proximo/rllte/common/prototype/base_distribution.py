"""rllte's module path of BaseDistribution."""

from proximo.rllte.xplore.distribution.base import BaseDistribution as BaseDistribution
