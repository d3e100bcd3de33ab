"""What `evaluate`, `watch`, `plot` and `bench` say of runs: several of them, faulty flags, missing packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import gymnasium
import pytest
from rich.console import Console

from proximo.analysis.evaluation import Evaluation
from proximo.cli import bench, console, playing
from proximo.cli.main import main
from proximo.cli.plot import grouped
from proximo.cli.runs import Run
from proximo.envs import rendering
from proximo.functional.statistics import mean_interval


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    words = ["--steps", "256", "--seed", "1", "--eval-episodes", "0", "--runs-dir", str(folder)]
    assert main(["train", "CartPole-v1", *words]) == 0
    (made,) = folder.iterdir()
    return made


def copy_of(run: Path, folder: Path, **replaced: str) -> Path:
    """A copy of a run with other values in its configuration, which may be in any table of it."""
    copy = Path(shutil.copytree(run, folder))
    lines = (run / "config.toml").read_text().splitlines()
    for key, value in replaced.items():
        (number,) = [number for number, line in enumerate(lines) if line.startswith(f"{key} = ")]
        lines[number] = f"{key} = {value}"
    (copy / "config.toml").write_text("\n".join(lines) + "\n")
    return copy


def test_runs_that_differ_in_seed_and_session_are_one_curve(run, tmp_path):
    others = [copy_of(run, tmp_path / "video", seed="2", video="true", preset='"run-2"', eval_episodes="7")]
    assert list(grouped(Run.open_all([run, *others])).values()) == [[run, *others]]
    others.append(copy_of(run, tmp_path / "gamma", gamma="0.5"))
    labels = list(grouped(Run.open_all([run, *others])))
    assert labels == ["PPO on CartPole-v1, gamma 0.98", "PPO on CartPole-v1, gamma 0.5"]


def test_a_run_counts_once_and_equal_seeds_are_pointed_out(run, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(run.parent)
    assert list(grouped(Run.open_all([run, run.name, run / "model.zip"])).values()) == [[run]]
    assert not recwarn.list
    again = copy_of(run, tmp_path / "again")
    with pytest.warns(UserWarning, match="several runs of ppo on CartPole-v1 have the seed 1"):
        assert list(grouped(Run.open_all([run, again])).values()) == [[run, again]]


def test_help_of_plot_tells_real_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["plot", "--help"])
    printed = capsys.readouterr().out
    assert "(default: )" not in printed
    assert "None" not in printed


def test_help_of_report_asks_for_runs_only_where_they_are_needed(capsys):
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    printed = capsys.readouterr().out
    assert "proximo report [-h] [RUN …]" in printed
    assert "(required without --serve)" in " ".join(printed.replace("│", " ").split())


def test_several_runs_are_a_row_each_and_a_mean_over_seeds(run, tmp_path, monkeypatch, capsys):
    results = {1: (10.0, 20.0), 2: (30.0, 40.0), 3: (20.0, 36.0)}
    monkeypatch.setattr(playing, "evaluate_run", lambda run, *_, **__: Evaluation(results[run.config.seed], (4, 6)))
    others = [copy_of(run, tmp_path / f"seed{seed}", seed=str(seed)) for seed in (2, 3)]
    assert main(["evaluate", *map(str, [run, *others])]) == 0
    *_, first, second, third, _, last, _ = capsys.readouterr().out.splitlines()
    for line, name, mean in ((first, run.name, "15.00"), (second, "seed2", "35.00"), (third, "seed3", "28.00")):
        assert name in line
        assert mean in line
    over_seeds = mean_interval([15.0, 35.0, 28.0])
    assert "mean of 3 seeds" in last
    for number in over_seeds:
        assert f"{number:.2f}" in last
    other_task = copy_of(run, tmp_path / "gamma", seed="2", gamma="0.5")
    assert main(["evaluate", str(run), str(other_task)]) == 0
    assert "seeds" not in capsys.readouterr().out


def test_a_run_that_was_not_trained_to_its_end_is_evaluated_with_a_warning(run, tmp_path, monkeypatch, capsys):
    """One seed of a group failed: what it saved is no trained agent, and a mean over seeds must not hide that."""
    monkeypatch.setattr(playing, "evaluate_run", lambda run, *_, **__: Evaluation((1.0, 2.0), (4, 6)))
    failed = copy_of(run, tmp_path / "failed", seed="2", n_timesteps="256")
    for name in ("progress.csv", "progress.jsonl"):
        (failed / name).unlink()
    with (failed / "journal.jsonl").open("a") as stream:
        stream.write('{"event": "end", "ending": "failed"}\n')
    assert main(["evaluate", str(run), str(failed)]) == 0
    said = capsys.readouterr().err
    assert "failed is at 0 of 256 steps (failed); its model is evaluated as it is" in said
    assert said.count("warning:") == 1
    assert main(["evaluate", str(failed), "--model", "model.zip"]) == 0
    assert "steps" not in capsys.readouterr().err


@pytest.mark.parametrize("width", [30, 50, 72, 200])
def test_numbers_are_whole_on_every_terminal(width, monkeypatch, capsys):
    terminal = Console(width=width, force_terminal=True, no_color=True, highlight=False)
    monkeypatch.setattr(console, "output", lambda: terminal)
    evaluation = Evaluation((-12345.25, 54321.5, 1.0), (1000, 200000, 3), (True, False, True))
    console.print_table(playing.evaluation_table(evaluation, title="PPO on Some-v0"))
    printed = capsys.readouterr().out
    numbers = (*evaluation.interval, evaluation.std, -12345.25, 54321.5)
    for text in (*(f"{number:.2f}" for number in numbers), "200000", "66.7 %"):
        assert text in printed
    assert ("┃" in printed) == (width == 200)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate RUN --seed -3", "--seed is -3; expected at least 0"),
        ("evaluate RUN --episodes 0", "--episodes is 0; expected at least 1"),
        ("evaluate RUN --episodes -3", "--episodes is -3; expected at least 1"),
        ("evaluate RUN --device foo", "--device is 'foo'"),
        ("evaluate", "name at least one run folder"),
        ("evaluate RUN --model checkpoints/worst.zip", "there are checkpoints/best.zip, checkpoints/model_"),
        ("watch RUN --seed -3", "--seed is -3; expected at least 0"),
        ("watch RUN --window --episodes 0", "--episodes is 0; expected at least 1"),
        ("watch RUN --seconds 0", "--seconds is 0.0; expected a finite number above 0"),
        ("watch RUN --seconds -1", "--seconds is -1.0; expected a finite number above 0"),
        ("watch RUN --seconds nan", "--seconds is nan; expected a finite number above 0"),
        ("watch RUN -o film", "the film film has no suffix; expected .gif or .mp4"),
        ("watch RUN -o film.avi", "the film film.avi has the suffix '.avi'; expected .gif or .mp4"),
    ],
)
def test_faulty_flags_are_one_line(words, message, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(run) if word == "RUN" else word for word in words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_window_needs_a_display(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    assert main(["watch", str(run), "--window"]) == 2
    assert "there is no display for --window; leave it out" in capsys.readouterr().err
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # the user has told pygame where to draw
    assert main(["watch", str(run), "--window", "--episodes", "1"]) == 0


def test_films_without_pygame_name_the_extra_before_the_training(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pygame", None)
    words = ["train", "CartPole-v1", "--steps", "64", "--video", "--runs-dir", str(tmp_path / "new")]
    for command in (words, ["watch", str(run), "-o", str(tmp_path / "film.gif")]):
        assert main(command) == 2
        message = "error: filming CartPole-v1 needs the package 'pygame': pip install 'proximo[classic]'\n"
        assert capsys.readouterr().err == message
    assert not list(tmp_path.iterdir())


def test_mp4_without_its_encoder_is_no_gif(run, tmp_path, monkeypatch, capsys):
    found = rendering.importlib.util.find_spec
    monkeypatch.setattr(
        rendering.importlib.util, "find_spec", lambda name: None if name == "imageio_ffmpeg" else found(name)
    )
    assert main(["watch", str(run), "-o", str(tmp_path / "film.mp4")]) == 2
    assert "pip install 'proximo[video]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_errors_of_gymnasium_are_one_line(run, monkeypatch, capsys):
    def refuse(*_, **__):
        raise gymnasium.error.ResetNeeded("reset first")

    monkeypatch.setattr(playing, "evaluate_run", refuse)
    assert main(["evaluate", str(run)]) == 2
    assert capsys.readouterr().err == "error: reset first\n"


def test_bench_names_its_rows_when_none_is_meant(capfd):
    assert bench.run(["--only", "nothing"]) == 2
    printed = capfd.readouterr()
    assert printed.err.startswith("error: no row's name contains 'nothing'; the rows are 'CartPole-v1, 4 envs")
    assert not printed.out
    assert printed.err.count("\n") == 1
