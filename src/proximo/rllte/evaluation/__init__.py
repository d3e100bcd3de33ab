"""rllte's evaluation toolkit, which is the library's."""

from typing import Any

from proximo.analysis.aggregates import min_max_normalize as min_max_normalize
from proximo.analysis.performance import Comparison as Comparison
from proximo.analysis.performance import Performance as Performance
from proximo.analysis.styled_plots import plot_interval_estimates as plot_interval_estimates
from proximo.analysis.styled_plots import plot_performance_profile as plot_performance_profile
from proximo.analysis.styled_plots import plot_probability_improvement as plot_probability_improvement
from proximo.analysis.styled_plots import plot_sample_efficiency_curve as plot_sample_efficiency_curve
from proximo.rllte.paths import absent


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
