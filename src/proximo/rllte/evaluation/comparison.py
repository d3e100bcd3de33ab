"""rllte's module path of Comparison."""

from proximo.analysis.comparison import Comparison as Comparison
