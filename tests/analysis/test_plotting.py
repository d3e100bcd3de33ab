"""Curves: the numbers that are drawn, and pictures that show them."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy import stats
from stable_baselines3.common import results_plotter as sb3

from proximo.analysis import plotting
from proximo.functional.statistics import mean_interval
from proximo.sb3.common import results_plotter
from proximo.training.loggers import configure

FRAME = pandas.DataFrame({"r": [1.0, 2.0, 4.0], "l": [10, 20, 30], "t": [3600.0, 7200.0, 9000.0]})


def write_run(folder, steps, returns, formats=("csv",)):
    logger = configure(str(folder), list(formats))
    for step, value in zip(steps, returns, strict=True):
        logger.record("time/total_timesteps", step)
        if value is not None:
            logger.record("rollout/ep_rew_mean", value)
        logger.dump(step)
    logger.close()
    return folder


@pytest.mark.parametrize("window", [1, 3, 10])
def test_rolling_windows_equal_sb3(window):
    array = np.random.default_rng(0).normal(size=(2, 10))
    np.testing.assert_array_equal(results_plotter.rolling_window(array, window), sb3.rolling_window(array, window))
    ours = results_plotter.window_func(np.arange(10), array[0], window, np.mean)
    theirs = sb3.window_func(np.arange(10), array[0], window, np.mean)
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their)


@pytest.mark.parametrize("x_axis", results_plotter.POSSIBLE_X_AXES)
def test_ts2xy_equals_sb3(x_axis):
    for our, their in zip(results_plotter.ts2xy(FRAME, x_axis), sb3.ts2xy(FRAME, x_axis), strict=True):
        np.testing.assert_array_equal(our, their)


def test_unknown_x_axis():
    with pytest.raises(NotImplementedError, match="did you mean 'timesteps'"):
        results_plotter.ts2xy(FRAME, "timestep")


def test_plot_curves_draws_dots_and_a_smooth_line():
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    x = np.arange(150) * 10
    y = np.sin(x)
    results_plotter.plot_curves([(x, y), (x[:50], y[:50])], results_plotter.X_TIMESTEPS, "two runs")
    axes = pyplot.gca()
    assert len(axes.collections) == 2
    assert len(axes.lines) == 1  # the second run is shorter than the window
    np.testing.assert_allclose(axes.lines[0].get_ydata()[0], y[:100].mean())
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("two runs", "timesteps", "Episode Rewards")
    assert axes.get_xlim() == (0.0, 1490.0)
    pyplot.close("all")


def test_plot_results_reads_monitor_files_up_to_a_step(tmp_path):
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    (tmp_path / "0.monitor.csv").write_text(
        '#{"t_start": 0.0, "env_id": "x"}\nr,l,t\n1.0,10,1.0\n2.0,20,2.0\n4.0,30,3.0\n'
    )
    results_plotter.plot_results([str(tmp_path)], 30, results_plotter.X_TIMESTEPS, "task")
    np.testing.assert_array_equal(pyplot.gca().collections[0].get_offsets(), [[10, 1.0], [30, 2.0]])
    pyplot.close("all")


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_read_curve_takes_rows_where_both_are_numbers(tmp_path, format_name):
    run = write_run(tmp_path, [100, 200, 300, 400], [None, 1.5, float("nan"), 2.5], (format_name,))
    for source in (run, run / f"progress.{format_name}", str(run)):
        x, y = plotting.read_curve(source, "time/total_timesteps", "rollout/ep_rew_mean")
        assert (x.tolist(), y.tolist()) == ([200.0, 400.0], [1.5, 2.5])


def test_read_curve_names_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run"):
        plotting.read_curve(tmp_path, "a", "b")
    write_run(tmp_path, [1], [1.0])
    with pytest.raises(ValueError, match=r"no column 'rollout/ep_rew_men'; did you mean 'rollout/ep_rew_mean'"):
        plotting.read_curve(tmp_path, "time/total_timesteps", "rollout/ep_rew_men")


def test_average_of_curves_with_different_steps():
    grid, mean, low, high = plotting.average_curves(
        [
            (np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 20.0])),
            (np.array([5.0, 15.0]), np.array([1.0, 1.0])),
            (np.array([5.0, 30.0]), np.array([4.0, 4.0])),
        ]
    )
    assert grid.tolist() == [5.0, 10.0, 15.0]  # what all three cover
    np.testing.assert_allclose(mean, [10 / 3, 5.0, 20 / 3])
    half = stats.t.ppf(0.975, 2) * np.std([10.0, 1.0, 4.0], ddof=1) / np.sqrt(3)
    np.testing.assert_allclose([low[1], high[1]], [5.0 - half, 5.0 + half])


def test_curves_without_a_common_range():
    with pytest.raises(ValueError, match="share no range"):
        plotting.average_curves([(np.array([0.0, 1.0]), np.zeros(2)), (np.array([2.0, 3.0]), np.zeros(2))])


def test_learning_curves_picture(tmp_path):
    from matplotlib.image import imread

    generator = np.random.default_rng(0)
    steps = np.arange(1, 40) * 2048
    runs = {
        name: [
            write_run(tmp_path / name / str(seed), steps, speed * np.sqrt(steps) + generator.normal(0, 20, len(steps)))
            for seed in range(seeds)
        ]
        for name, speed, seeds in (("PPO", 1.7, 3), ("A2C", 1.0, 2), ("one seed", 0.5, 1))
    }
    path = plotting.plot_learning_curves(runs, tmp_path / "new folder" / "curves.png")
    picture = imread(path)  # [height, width, rgba] in 0 … 1
    assert picture.shape[:2] == (960, 1600)
    for colour in plotting.PALETTE[:3]:
        expected = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
        assert (np.abs(picture[:, :, :3] - expected).max(axis=2) < 0.02).sum() > 500


@pytest.mark.parametrize("runs", [{}, {"PPO": []}])
def test_nothing_to_plot(runs, tmp_path):
    with pytest.raises(ValueError, match="nothing to plot"):
        plotting.plot_learning_curves(runs, tmp_path / "curves.png")


def drawn_axes(monkeypatch, *arguments, **keywords):
    """The axes that a picture of learning curves was drawn with."""
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    plotting.plot_learning_curves(*arguments, **keywords)
    figures[0].canvas.draw()
    return figures[0].axes[0]


@pytest.mark.parametrize("repetitions", [5, 20])
def test_long_labels_stay_within_the_picture(repetitions, tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", [0, 2000], [1.0, 2.0])
    label = "PPO on CartPole-v1, policy_kwargs " + "{'net_arch': {'pi': [64, 64], 'vf': [64, 64]}} " * repetitions
    axes = drawn_axes(monkeypatch, {label: [run], "other": [run]}, tmp_path / "curves.png")
    legend, frame = (axes.get_legend() or axes.figure.legends[0]).get_window_extent(), axes.figure.bbox
    assert frame.x0 <= legend.x0 < legend.x1 <= frame.x1
    assert frame.y0 <= legend.y0 < legend.y1 <= frame.y1
    assert repetitions < 20 or legend.y1 < axes.get_window_extent().y0  # it would hide the curves


@pytest.mark.parametrize(("end", "shown"), [(0.5, "0.5"), (20_000, "20k")])
def test_thousands_are_abbreviated_and_nothing_below(end, shown, tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", [0, end], [1.0, 2.0])
    axes = drawn_axes(monkeypatch, {"PPO": [run]}, tmp_path / "curves.png")
    assert shown in [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize(
    ("column", "title"),
    [("rollout/ep_rew_mean", "Mean episode return"), ("train/explained_variance", "train/explained_variance")],
)
def test_titles_keep_the_names_of_columns(column, title, tmp_path, monkeypatch):
    run = tmp_path / "progress.csv"
    run.write_text(f"time/total_timesteps,{column}\n1,2\n2,3\n")
    axes = drawn_axes(monkeypatch, {"PPO": [run], "A2C": [run]}, tmp_path / "curves.png", y=column)
    assert axes.get_title(loc="left") == title


def test_a_single_point_has_its_interval(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / str(value), [100], [value]) for value in (1.0, 2.0, 4.0)]
    axes = drawn_axes(monkeypatch, {"PPO": runs}, tmp_path / "curves.png")
    (bar,) = [line for container in axes.containers for line in container.lines[2]]
    _, low, high = mean_interval([1.0, 2.0, 4.0])
    np.testing.assert_allclose(bar.get_segments()[0], [[100, low], [100, high]])
    bottom, top = axes.get_ylim()
    assert bottom < low < high < top


def test_a_picture_without_suffix_is_a_png(tmp_path):
    run = write_run(tmp_path / "run", [1, 2], [1.0, 2.0])
    path = plotting.plot_learning_curves({"PPO": [run]}, tmp_path / "curves")
    assert path == tmp_path / "curves.png"
    assert path.is_file()
