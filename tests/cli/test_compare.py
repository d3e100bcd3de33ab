"""`proximo compare` on run folders with known scores, held against the published package rliable."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proximo.analysis.comparison import compare
from proximo.cli.main import main
from reports.run_folders import write_run

SCORES = {  # by group and task: the last training return of each seed
    "ppo": {"CartPole-v1": [90.0, 93.0, 99.0, 120.0], "Pendulum-v1": [-200.0, -180.0, -150.0, -400.0]},
    "a2c": {"CartPole-v1": [50.0, 95.0, 60.0, 70.0], "Pendulum-v1": [-900.0, -185.0, -700.0, -650.0]},
    "trpo": {"CartPole-v1": [91.0, 94.0, 97.0, 99.0], "Pendulum-v1": [-210.0, -190.0, -185.0, -170.0]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """runs/{group}/{task}-{seed}: three groups on two tasks."""
    for algo, tasks in SCORES.items():
        for task, scores in tasks.items():
            for seed, score in enumerate(scores):
                path = tmp_path / "runs" / algo / f"{task}-{algo}-{seed}"
                write_run(path, [score - 50.0] * 9 + [score], env=task, algo=algo, seed=seed)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def matrices() -> dict[str, np.ndarray]:
    """The scores [run, task], the lowest of a task 0 and the highest 1."""
    raw = {group: np.array(list(tasks.values())).T for group, tasks in SCORES.items()}
    everything = np.concatenate(list(raw.values()))
    low, high = everything.min(axis=0), everything.max(axis=0)
    return {group: (matrix - low) / (high - low) for group, matrix in raw.items()}


def interval(rliable, aggregate, *scores, repetitions=2000):
    np.random.seed(0)
    given = {"group": scores[0] if len(scores) == 1 else list(scores)}
    points, bounds = rliable.library.get_interval_estimates(
        given, lambda *each: np.array([aggregate(*each)]), reps=repetitions
    )
    return [float(points["group"][0]), *bounds["group"][:, 0]]


def test_printed_numbers_are_those_of_rliable(folder, rliable, capsys):
    assert main(["compare", "runs/ppo", "runs/a2c", "runs/trpo", "--repetitions", "2000"]) == 0
    printed = capsys.readouterr().out
    assert (
        "return of the last training episodes (of each task, the lowest run is 0 and the highest 1), 2 tasks" in printed
    )
    lines = printed.splitlines()
    for group, scores in matrices().items():
        (row,) = [line for line in lines if re.match(rf"│ {group} +│ +4 × 2", line)]
        iqm = interval(rliable, rliable.metrics.aggregate_iqm, scores)
        mean = interval(rliable, rliable.metrics.aggregate_mean, scores)
        expected = [f"{value:.3f}" for value in (*iqm, *mean)]
        assert re.findall(r"-?\d+\.\d+", row) == expected
    for x, y in itertools.combinations(SCORES, 2):
        (row,) = [line for line in lines if f"│ {x} > {y} " in line]
        value = rliable.metrics.probability_of_improvement(matrices()[x], matrices()[y])
        assert re.findall(r"\d+\.\d+", row)[0] == f"{value:.3f}"


def test_pairs_and_profiles_on_the_same_resamples(rliable, monkeypatch):
    monkeypatch.setattr("proximo.analysis.aggregates._NUMBERS_AT_ONCE", 1)  # x, y, x, y, … as rliable draws
    scores = matrices()
    comparison = compare(scores, repetitions=150)
    for (x, y), estimate in comparison.improvements.items():
        improvement = rliable.metrics.probability_of_improvement
        wanted = interval(rliable, improvement, scores[x], scores[y], repetitions=150)
        np.testing.assert_allclose(estimate, wanted, rtol=0, atol=1e-12)
    for group, matrix in scores.items():
        np.random.seed(0)
        values, bounds = rliable.library.create_performance_profile({group: matrix}, comparison.thresholds, reps=150)
        np.testing.assert_allclose(comparison.profiles[group][0], values[group], rtol=0, atol=1e-12)
        np.testing.assert_allclose(comparison.profiles[group][1], bounds[group], rtol=0, atol=1e-12)


def test_verdicts(folder, capsys):
    assert main(["compare", "runs/ppo", "runs/a2c", "runs/trpo", "--repetitions", "1000"]) == 0
    verdicts = {
        line.split("│")[1].strip(): line.split("│")[4].strip()
        for line in capsys.readouterr().out.splitlines()
        if " > " in line
    }
    assert verdicts == {"ppo > a2c": "ppo", "ppo > trpo": "undecided", "a2c > trpo": "trpo"}


def test_a_few_runs_decide_nothing(folder, capsys):
    """All of three above all of three is one of 20 ways to deal them out, and so is the reverse."""
    words = ["x=runs/ppo/CartPole*-[012]", "y=runs/a2c/CartPole*-[023]", "--repetitions", "1000"]
    assert main(["compare", *words]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "x > y" in line]
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["1.000", "1.000 … 1.000", "too few runs"]
    assert compare({"x": np.ones((4, 1)), "y": np.zeros((4, 1))}, repetitions=2).can_tell_apart("x", "y")
    assert compare({"x": np.ones((2, 3)), "y": np.zeros((2, 3))}, repetitions=2).can_tell_apart("x", "y")


def test_picture_and_latex(folder, capsys):
    words = ["A_1=runs/ppo/CartPole*", "50%=runs/a2c/CartPole*", "-o", "out/x.png", "--latex", "out/x.tex"]
    assert main(["compare", *words, "--repetitions", "500"]) == 0
    printed = capsys.readouterr().out
    assert "out/x.png" in printed
    picture = Image.open("out/x.png")
    assert picture.size[0] == 2200
    assert len(picture.convert("RGB").getcolors(2**24)) > 50
    latex = Path("out/x.tex").read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 3
    assert r"A\_1" in latex
    assert r"50\%" in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    (iqm,) = [row for row in rows if row.startswith(r"A\_1 & 4 &")]
    assert iqm.split(" & ")[2] == "96.00"  # of 90, 93, 99 and 120 the middle half


def test_scores_and_scales(folder, capsys):
    for seed in range(4):
        for group in ("ppo", "a2c"):
            run = Path(f"runs/{group}/CartPole-v1-{group}-{seed}")
            np.savez(run / "evaluations.npz", timesteps=[500, 1000], results=[[1.0, 1.0], [seed, seed + 2.0]])
    groups = ["runs/ppo/CartPole*", "x=runs/a2c/CartPole*", "--repetitions", "10"]
    assert main(["compare", *groups]) == 0
    printed = capsys.readouterr().out
    assert "return of the last evaluation, 1 task" in printed
    assert "2.500" in printed  # the mean of 1, 2, 3 and 4
    assert main(["compare", *groups, "--score", "training"]) == 0
    assert "100.50" in capsys.readouterr().out
    Path("scores.toml").write_text('"CartPole-v1" = [0.5, 200.5]\n')
    assert main(["compare", *groups, "--score", "training", "--normalize", "scores.toml"]) == 0
    printed = capsys.readouterr().out
    assert "(normalised by scores.toml)" in printed
    assert "0.500" in printed


def test_what_is_not_comparable_is_said(folder, capsys):
    write_run(Path("runs/ppo/more"), [1e6] * 10, seed=9)
    write_run(Path("runs/a2c/again"), [70.0] * 4, algo="a2c", seed=3)
    write_run(Path("runs/trpo/other"), [70.0] * 10, env="Pendulum-v1", algo="trpo", seed=5, gamma=0.5)
    write_run(Path("runs/trpo/another"), [70.0] * 10, algo="trpo", seed=5)
    assert main(["compare", "runs/ppo", "runs/a2c", "runs/trpo", "--repetitions", "10"]) == 0
    said = capsys.readouterr().err
    assert "the group ppo has more than 4 runs on CartPole-v1: those with the 4 lowest seeds are compared" in said
    assert "several runs of a2c on CartPole-v1 have the seed 3" in said
    assert "runs/a2c/again is at 400 of 1,000 steps" in said
    assert "the group trpo mixes trainings that differ" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runs/ppo"], "got 1 group; expected two or more folders"),
        (["runs/ppo", "runs/ppo"], "two groups are called 'ppo'"),
        (["runs/ppo", "runs/none*"], "nothing has the name or pattern 'runs/none*'"),
        (["runs/ppo", "x=runs/a2c/Cart*"], "the group x has no run on Pendulum-v1"),
        (["runs/ppo", "runs/a2c", "--score", "evaluation"], "has no evaluation; --score training does without"),
        (["runs/ppo", "runs/a2c", "--normalize", "x.toml"], "expected auto, none, minmax, or a TOML file that exists"),
        (["runs/ppo", "runs/a2c", "--normalize", "empty.toml"], '"CartPole-v1" = [0.0, 500.0]'),
        (["runs/ppo", "runs/a2c", "--repetitions", "0"], "--repetitions is 0; expected at least 1"),
    ],
)
def test_faults_are_one_line(words, message, folder, capsys):
    Path("empty.toml").touch()
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
