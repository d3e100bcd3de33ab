"""rllte's module path of Performance."""

from proximo.analysis.performance import Performance as Performance
