"""rllte's evaluation toolkit, computed by :mod:`proximo.analysis.aggregates`."""

from proximo.analysis.aggregates import min_max_normalize as min_max_normalize
from proximo.rllte.evaluation.comparison import Comparison as Comparison
from proximo.rllte.evaluation.performance import Performance as Performance
from proximo.rllte.evaluation.visualization import plot_interval_estimates as plot_interval_estimates
from proximo.rllte.evaluation.visualization import plot_performance_profile as plot_performance_profile
from proximo.rllte.evaluation.visualization import plot_probability_improvement as plot_probability_improvement
from proximo.rllte.evaluation.visualization import plot_sample_efficiency_curve as plot_sample_efficiency_curve
