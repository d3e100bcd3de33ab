"""rllte's module path of BaseDistribution."""

from __future__ import annotations

from proximo.rllte.xplore.distribution.base import BaseDistribution as BaseDistribution
