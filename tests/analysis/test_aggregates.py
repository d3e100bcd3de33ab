"""Aggregates against the published package rliable: values to 1e-12, intervals to the same resamples."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

matplotlib.use("Agg")
from matplotlib import pyplot

from proximo.analysis import aggregate_plots
from proximo.analysis.aggregates import (
    as_scores,
    bootstrap_interval,
    interquartile_mean,
    mean_score,
    median_score,
    min_max_normalize,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from proximo.rllte import evaluation

EXACT = {"rtol": 0, "atol": 1e-12}


def random_scores(runs, tasks, seed=0):
    """Skewed, of very unequal size per task, with ties."""
    generator = np.random.default_rng(seed)
    return np.round(generator.gamma(2.0, size=(runs, tasks)) * np.linspace(0.1, 1.0, tasks), 2)


class TestValues:
    @given(runs=st.integers(1, 9), tasks=st.integers(1, 7), seed=st.integers(0, 1000))
    def test_equal_to_rliable(self, rliable, runs, tasks, seed):
        scores = random_scores(runs, tasks, seed)
        metrics = rliable.metrics
        np.testing.assert_allclose(mean_score(scores), metrics.aggregate_mean(scores), **EXACT)
        np.testing.assert_allclose(median_score(scores), metrics.aggregate_median(scores), **EXACT)
        np.testing.assert_allclose(interquartile_mean(scores), metrics.aggregate_iqm(scores), **EXACT)
        np.testing.assert_allclose(
            optimality_gap(scores, 0.7), metrics.aggregate_optimality_gap(scores, gamma=0.7), **EXACT
        )

    @given(runs_x=st.integers(1, 8), runs_y=st.integers(1, 8), tasks=st.integers(1, 5), seed=st.integers(0, 1000))
    def test_probability_of_improvement(self, rliable, runs_x, runs_y, tasks, seed):
        x, y = random_scores(runs_x, tasks, seed), random_scores(runs_y, tasks, seed + 1)
        wanted = rliable.metrics.probability_of_improvement(x, y)
        np.testing.assert_allclose(probability_of_improvement(x, y), wanted, **EXACT)
        np.testing.assert_allclose(probability_of_improvement(y, x), 1.0 - wanted, **EXACT)

    def test_profiles(self, rliable):
        scores, thresholds = random_scores(6, 4), np.linspace(0, 3, 31)
        np.testing.assert_allclose(
            performance_profile(scores, thresholds), rliable.library.score_distributions(scores, thresholds), **EXACT
        )
        np.testing.assert_allclose(
            performance_profile(scores, thresholds, of_task_means=True),
            rliable.library.average_score_distributions(scores, thresholds),
            **EXACT,
        )

    def test_by_hand(self):
        scores = np.array([[0.0, 2.0, 4.0], [1.0, 3.0, 8.0]])
        assert mean_score(scores) == 3.0
        assert median_score(scores) == 2.5  # of 0.5, 2.5 and 6
        assert interquartile_mean(scores) == 2.5  # 1, 2, 3 and 4 remain
        assert optimality_gap(scores, 4.0) == pytest.approx(4.0 - 14 / 6)
        assert performance_profile(scores, [1.0, 3.5]).tolist() == pytest.approx([4 / 6, 2 / 6])
        assert probability_of_improvement(scores + 100, scores) == 1.0

    def test_stacks_are_taken_matrix_by_matrix(self):
        stack = np.stack([random_scores(5, 3, seed) for seed in range(4)])
        for aggregate in (mean_score, median_score, interquartile_mean, optimality_gap):
            np.testing.assert_allclose(aggregate(stack), [aggregate(matrix) for matrix in stack], **EXACT)

    def test_min_max_normalize(self):
        value = np.array([[5.0, 10.0], [0.0, 25.0]])
        np.testing.assert_allclose(min_max_normalize(value, [0, 5], [10, 25]), [[0.5, 0.25], [0.0, 1.0]])
        with pytest.raises(ValueError, match="every maximum must lie above its minimum"):
            min_max_normalize(value, [0, 5], [10, 5])


class TestIntervals:
    @pytest.mark.parametrize("method", ["percentile", "basic", "bc", "bca", "debiased"])
    @pytest.mark.parametrize("tasks", [1, 4])
    def test_same_resamples_same_interval(self, rliable, method, tasks):
        scores = random_scores(7, tasks)
        np.random.seed(3)  # rliable draws from NumPy's global state
        _, wanted = rliable.library.get_interval_estimates(
            {"ours": scores}, lambda x: np.array([rliable.metrics.aggregate_iqm(x)]), method=method, reps=500
        )
        random = np.random.RandomState(3)
        got = bootstrap_interval(interquartile_mean, scores, repetitions=500, method=method, random=random)
        assert got.shape == (2, 1)
        np.testing.assert_allclose(got, wanted["ours"], **EXACT)

    def test_same_resamples_of_a_profile(self, rliable):
        scores, thresholds = random_scores(7, 4), np.linspace(0, 2, 9)
        np.random.seed(3)
        _, wanted = rliable.library.create_performance_profile({"ours": scores}, thresholds, reps=300)
        got = bootstrap_interval(
            lambda x: performance_profile(x, thresholds), scores, repetitions=300, random=np.random.RandomState(3)
        )
        np.testing.assert_allclose(got, wanted["ours"], **EXACT)

    def test_same_resamples_of_two_matrices(self, rliable, monkeypatch):
        monkeypatch.setattr("proximo.analysis.aggregates._NUMBERS_AT_ONCE", 1)  # x, y, x, y, … as rliable draws
        x, y = random_scores(8, 4, 1) + 0.1, random_scores(6, 4, 2)
        np.random.seed(0)
        _, wanted = rliable.library.get_interval_estimates(
            {"pair": [x, y]}, lambda x, y: np.array([rliable.metrics.probability_of_improvement(x, y)]), reps=150
        )
        random = np.random.RandomState(0)
        got = bootstrap_interval(probability_of_improvement, x, y, repetitions=150, random=random)
        np.testing.assert_allclose(got, wanted["pair"], **EXACT)
        assert got[0] < probability_of_improvement(x, y) < got[1]

    def test_same_resamples_of_tasks_too(self, rliable, monkeypatch):
        monkeypatch.setattr("proximo.analysis.aggregates._NUMBERS_AT_ONCE", 1)
        scores = random_scores(6, 5)
        np.random.seed(0)
        _, wanted = rliable.library.get_interval_estimates(
            {"ours": scores}, lambda x: np.array([rliable.metrics.aggregate_mean(x)]), task_bootstrap=True, reps=500
        )
        random = np.random.RandomState(0)
        got = bootstrap_interval(mean_score, scores, repetitions=500, resample_tasks=True, random=random)
        np.testing.assert_allclose(got, wanted["ours"], **EXACT)
        narrow = bootstrap_interval(mean_score, scores, repetitions=500, random=random)
        assert np.ptp(got) > 1.3 * np.ptp(narrow)

    def test_covers_the_truth_as_often_as_promised(self):
        generator = np.random.default_rng(0)
        hits = 0
        for _ in range(200):
            scores = generator.normal(size=(20, 3))
            low, high = bootstrap_interval(mean_score, scores, repetitions=400, coverage=0.8, random=generator)
            hits += bool(low < 0.0 < high)
        assert 0.70 <= hits / 200 <= 0.90

    def test_memory_bound_changes_nothing(self, monkeypatch):
        scores = random_scores(5, 3)
        whole = bootstrap_interval(median_score, scores, repetitions=100, random=np.random.RandomState(1))
        monkeypatch.setattr("proximo.analysis.aggregates._NUMBERS_AT_ONCE", 100)
        pieces = bootstrap_interval(median_score, scores, repetitions=100, random=np.random.RandomState(1))
        np.testing.assert_array_equal(pieces, whole)


class TestBadInput:
    @pytest.mark.parametrize(
        ("scores", "message"),
        [
            ([1.0, 2.0], r"must be a matrix \[run, task\], got shape \(2,\)"),
            (np.empty((0, 3)), r"at least one run and one task, got shape \(0, 3\)"),
            ([[1.0, np.nan], [np.inf, 0.0]], "2 of 4 are NaN or infinite"),
        ],
    )
    def test_scores(self, scores, message):
        for use in (as_scores, mean_score, median_score, interquartile_mean, optimality_gap, evaluation.Performance):
            with pytest.raises(ValueError, match=message):
                use(scores)
        with pytest.raises(ValueError, match=message):
            evaluation.Comparison(np.ones((2, 2)), scores)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"method": "percentil"}, "did you mean 'percentile'"),
            ({"repetitions": 0}, "repetitions must be at least 1"),
            ({"coverage": 95.0}, "coverage between 0 and 1, got 50000 and 95.0"),
        ],
    )
    def test_bootstrap(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            bootstrap_interval(mean_score, np.ones((3, 2)), **arguments)

    def test_constant_scores_have_no_bias_to_correct(self):
        assert bootstrap_interval(mean_score, np.ones((3, 2)), repetitions=10).tolist() == [[1.0], [1.0]]
        with pytest.raises(ValueError, match="use method='percentile'"):
            bootstrap_interval(mean_score, np.ones((3, 2)), repetitions=10, method="bc")

    def test_unequal_shapes(self):
        with pytest.raises(ValueError, match="same tasks, got 2 and 3 tasks"):
            probability_of_improvement(np.ones((2, 2)), np.ones((2, 3)))
        with pytest.raises(ValueError, match="equal numbers of runs"):
            bootstrap_interval(probability_of_improvement, np.eye(2), np.eye(3)[:, :2], repetitions=5, method="bca")
        with pytest.raises(ValueError, match="one score matrix"):
            bootstrap_interval(probability_of_improvement, np.eye(2), np.eye(2), resample_tasks=True)

    def test_thresholds(self):
        with pytest.raises(ValueError, match="thresholds must be a list of numbers"):
            performance_profile(np.ones((2, 2)), [])


class TestDoor:
    def test_values_alone_or_with_intervals(self):
        scores = random_scores(6, 4)
        plain = evaluation.Performance(scores)
        with_interval = evaluation.Performance(scores, get_ci=True, reps=200, random_state=np.random.RandomState(0))
        for name in ("aggregate_mean", "aggregate_median", "aggregate_iqm", "aggregate_og"):
            value, interval = getattr(with_interval, name)()
            assert value == getattr(plain, name)()
            assert interval.shape == (2, 1)
            assert interval[0] <= value <= interval[1]
        assert plain.aggregate_og(gamma=2.0) == optimality_gap(scores, 2.0)

    def test_profile(self):
        profile, interval = evaluation.Performance(random_scores(6, 4), reps=50).create_performance_profile([0.1, 1.0])
        assert profile.shape == (2,)
        assert interval.shape == (2, 2)
        assert profile[0] > profile[1]

    def test_own_metric(self):
        scores = random_scores(6, 4)
        performance = evaluation.Performance(scores, reps=300, random_state=np.random.RandomState(5))
        got = performance.get_interval_estimates(scores, lambda matrix: matrix.mean())
        wanted = bootstrap_interval(mean_score, scores, repetitions=300, random=np.random.RandomState(5))
        np.testing.assert_allclose(got, wanted, **EXACT)

    def test_improvement(self):
        x, y = random_scores(6, 4, 1), random_scores(5, 4, 2)
        assert evaluation.Comparison(x, y).compute_poi() == probability_of_improvement(x, y)
        value, interval = evaluation.Comparison(x, y, get_ci=True, reps=200).compute_poi()
        assert interval[0] <= value <= interval[1]
        with pytest.raises(ValueError, match=r"shapes \(6, 4\) and \(5, 3\)"):
            evaluation.Comparison(x, y[:, :3])


class TestPlots:
    @pytest.fixture(autouse=True)
    def _close(self):
        yield
        pyplot.close("all")

    def test_intervals(self):
        estimates = {
            metric: {"PPO": (0.5, np.array([[0.4], [0.7]])), "PPG": (0.8, np.array([[0.6], [0.9]]))}
            for metric in ("Mean", "IQM")
        }
        figure, panels = evaluation.plot_interval_estimates(estimates, ["Mean", "IQM"], ["PPO", "PPG"], xlabel="Score")
        assert [axes.get_title() for axes in panels] == ["Mean", "IQM"]
        assert [label.get_text() for label in panels[0].get_yticklabels()] == ["PPO", "PPG"]
        bars = panels[1].patches
        assert [(bar.get_x(), bar.get_width()) for bar in bars] == [
            (0.4, pytest.approx(0.3)),
            (0.6, pytest.approx(0.3)),
        ]
        assert figure.get_supxlabel() == "Score"
        _, one = evaluation.plot_interval_estimates(estimates, ["IQM"], ["PPG"], colors={"PPG": "red"})
        assert one.patches[0].get_facecolor()[:3] == (1.0, 0.0, 0.0)

    def test_improvement(self):
        _, axes = evaluation.plot_probability_improvement(
            {"PPG,PPO": (0.7, np.array([[0.6], [0.8]]))}, pair_separator=","
        )
        assert [label.get_text() for label in axes.get_yticklabels()] == ["PPG"]
        assert axes.patches[0].get_x() == 0.6

    def test_profile(self):
        thresholds = np.linspace(0, 1, 5)
        values = np.array([1.0, 0.8, 0.5, 0.2, 0.0])
        profiles = {"PPO": (values, np.stack([values - 0.1, values + 0.1]))}
        _, axes = evaluation.plot_performance_profile(profiles, thresholds)
        np.testing.assert_array_equal(axes.lines[0].get_xydata(), np.column_stack([thresholds, values]))
        _, axes = evaluation.plot_performance_profile(profiles, thresholds, use_non_linear_scaling=True)
        np.testing.assert_allclose(axes.lines[0].get_xdata(), 1 - values)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.25", "0.5", "0.75", "1"]

    def test_curve(self):
        curves = {"PPO": [np.array([0.1, 0.5]), np.array([0.0, 0.4]), np.array([0.2, 0.6])]}
        _, axes = evaluation.plot_sample_efficiency_curve(curves, [1, 2], ["PPO"])
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), [0.1, 0.5])
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["PPO"]

    def test_arguments_of_looks(self):
        curves = {"PPO": [np.zeros(2)] * 3}
        with pytest.warns(UserWarning, match="no use for labelsize"):
            _, axes = evaluation.plot_sample_efficiency_curve(
                curves, [1, 2], ["PPO"], color_palette="tab10", labelsize="large"
            )
        assert axes.lines[0].get_color()[:3] == pytest.approx((0.1216, 0.4667, 0.7059), abs=1e-3)
        with pytest.raises(ValueError, match="unknown color_palette 'virdis': did you mean 'viridis'"):
            evaluation.plot_sample_efficiency_curve(curves, [1, 2], ["PPO"], color_palette="virdis")

    @pytest.mark.parametrize(
        ("draw", "message"),
        [
            (lambda: aggregate_plots.plot_interval_estimates({"IQM": {}}, ["IQN"], ["PPO"]), "did you mean 'IQM'"),
            (
                lambda: aggregate_plots.plot_interval_estimates({"IQM": {"PPO": ()}}, ["IQM"], ["PPG"]),
                "algorithm 'PPG'",
            ),
            (lambda: aggregate_plots.plot_probability_improvement({"a_b_c": ()}), "set pair_separator"),
            (lambda: aggregate_plots.plot_probability_improvement({}), "nothing to plot"),
            (lambda: aggregate_plots.plot_performance_profile({}, [0.5]), "nothing to plot"),
            (lambda: aggregate_plots.plot_sample_efficiency_curve({}, [1], []), "nothing to plot"),
        ],
    )
    def test_bad_input(self, draw, message):
        with pytest.raises(ValueError, match=message):
            draw()
