"""The plots of aggregates, taking rllte's arguments for looks as well."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from proximo.analysis import aggregate_plots
from proximo.errors import near_matches

Plot = Callable[..., tuple[Any, Any]]

# of rllte's plots; here the layout and the sizes of letters follow from the picture's size
_WITHOUT_EFFECT = frozenset(
    {
        "grid_alpha",
        "hrect",
        "labelsize",
        "legendsize",
        "ticklabelsize",
        "wrect",
        "wspace",
        "xlabel_y_coordinate",
        "ylabel_x_coordinate",
    }
)


def _taking_rllte_arguments(plot: Plot) -> Plot:
    @functools.wraps(plot)
    def draw(*args: Any, color_palette: str = "colorblind", **kwargs: Any) -> tuple[Any, Any]:
        dropped = sorted(_WITHOUT_EFFECT & kwargs.keys())
        if dropped:
            warnings.warn(f"{plot.__name__} has no use for {', '.join(dropped)}", stacklevel=2)
        kept = {name: value for name, value in kwargs.items() if name not in _WITHOUT_EFFECT}
        if color_palette != "colorblind" and kept.get("colors") is None:
            kept["colors"] = _palette(color_palette)
        return plot(*args, **kept)

    return draw


def _palette(name: str) -> list[Any]:
    """Colours of one of matplotlib's maps: its own if it is a list of a few, else ten along it."""
    from matplotlib import colormaps

    if name not in colormaps:
        known = ["colorblind", *colormaps]
        raise ValueError(f"unknown color_palette {name!r}: {near_matches(name, known)}; or pass colors")
    colour_map = colormaps[name]
    return [colour_map(place) for place in (range(colour_map.N) if colour_map.N <= 20 else np.linspace(0, 1, 10))]


plot_interval_estimates = _taking_rllte_arguments(aggregate_plots.plot_interval_estimates)
plot_performance_profile = _taking_rllte_arguments(aggregate_plots.plot_performance_profile)
plot_probability_improvement = _taking_rllte_arguments(aggregate_plots.plot_probability_improvement)
plot_sample_efficiency_curve = _taking_rllte_arguments(aggregate_plots.plot_sample_efficiency_curve)
