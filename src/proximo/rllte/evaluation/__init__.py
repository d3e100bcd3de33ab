"""rllte's evaluation toolkit, computed by :mod:`proximo.analysis.aggregates`."""

from __future__ import annotations

from proximo.analysis.aggregates import min_max_normalize
from proximo.rllte.evaluation.comparison import Comparison
from proximo.rllte.evaluation.performance import Performance
from proximo.rllte.evaluation.visualization import (
    plot_interval_estimates,
    plot_performance_profile,
    plot_probability_improvement,
    plot_sample_efficiency_curve,
)

__all__ = [
    "Comparison",
    "Performance",
    "min_max_normalize",
    "plot_interval_estimates",
    "plot_performance_profile",
    "plot_probability_improvement",
    "plot_sample_efficiency_curve",
]
