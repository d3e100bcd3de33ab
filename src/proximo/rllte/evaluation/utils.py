"""rllte's module path of min_max_normalize."""

from proximo.analysis.aggregates import min_max_normalize as min_max_normalize
