"""Plots of monitor files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from proximo.data import Array
from proximo.envs import load_results as load_results
from proximo.errors import near_matches

if TYPE_CHECKING:
    import pandas

X_TIMESTEPS = "timesteps"
X_EPISODES = "episodes"
X_WALLTIME = "walltime_hrs"
POSSIBLE_X_AXES = [X_TIMESTEPS, X_EPISODES, X_WALLTIME]
EPISODES_WINDOW = 100


def rolling_window(array: Array, window: int) -> Array:
    """Every ``window`` neighbours along the last axis, as a read-only view.

    >>> rolling_window(np.array([1, 2, 3, 4]), 3)
    array([[1, 2, 3],
           [2, 3, 4]])
    """
    return np.lib.stride_tricks.sliding_window_view(array, window, axis=-1)


def window_func(var_1: Array, var_2: Array, window: int, func: Callable[..., Array]) -> tuple[Array, Array]:
    """``func`` (such as ``np.mean``) over a rolling window of ``var_2``, beside the last ``var_1`` of each window."""
    return var_1[window - 1 :], func(rolling_window(var_2, window), axis=-1)


def ts2xy(data_frame: pandas.DataFrame, x_axis: str) -> tuple[Array, Array]:
    """Episode returns of a monitor's data frame (columns r, l, t) over steps, episodes or hours."""
    axes: dict[str, Callable[[], Array]] = {
        X_TIMESTEPS: lambda: np.cumsum(data_frame.l.values),
        X_EPISODES: lambda: np.arange(len(data_frame)),
        X_WALLTIME: lambda: data_frame.t.values / 3600.0,
    }
    if x_axis not in axes:
        raise NotImplementedError(f"{x_axis!r} is no x axis; {near_matches(x_axis, POSSIBLE_X_AXES)}")
    return axes[x_axis](), data_frame.r.values


def plot_curves(
    xy_list: Sequence[tuple[Array, Array]], x_axis: str, title: str, figsize: tuple[float, float] = (8, 2)
) -> None:
    """Draw returns as dots, and as a line their mean over ``EPISODES_WINDOW`` episodes, into a pyplot figure."""
    from matplotlib import pyplot

    pyplot.figure(title, figsize=figsize)
    for x, y in xy_list:
        dots = pyplot.scatter(x, y, s=2, alpha=0.6)
        if len(x) >= EPISODES_WINDOW:
            pyplot.plot(*window_func(x, y, EPISODES_WINDOW, np.mean), color=dots.get_facecolor()[0], alpha=1.0)
    pyplot.xlim(0, max(x[-1] for x, _ in xy_list))
    pyplot.title(title)
    pyplot.xlabel(x_axis)
    pyplot.ylabel("Episode Rewards")
    pyplot.tight_layout()


def plot_results(
    dirs: Sequence[str],
    num_timesteps: int | None,
    x_axis: str,
    task_name: str,
    figsize: tuple[float, float] = (8, 2),
) -> None:
    """Draw the monitor files of each folder, up to ``num_timesteps``, into one pyplot figure."""
    frames = [load_results(folder) for folder in dirs]
    if num_timesteps is not None:
        frames = [frame[frame.l.cumsum() <= num_timesteps] for frame in frames]
    plot_curves([ts2xy(frame, x_axis) for frame in frames], x_axis, task_name, figsize)
