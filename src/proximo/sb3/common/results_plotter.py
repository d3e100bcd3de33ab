"""Plots of monitor files."""

from __future__ import annotations

from proximo.analysis.plotting import (
    EPISODES_WINDOW,
    POSSIBLE_X_AXES,
    X_EPISODES,
    X_TIMESTEPS,
    X_WALLTIME,
    plot_curves,
    plot_results,
    rolling_window,
    ts2xy,
    window_func,
)
from proximo.envs import load_results

__all__ = [
    "EPISODES_WINDOW",
    "POSSIBLE_X_AXES",
    "X_EPISODES",
    "X_TIMESTEPS",
    "X_WALLTIME",
    "load_results",
    "plot_curves",
    "plot_results",
    "rolling_window",
    "ts2xy",
    "window_func",
]
