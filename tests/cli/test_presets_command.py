"""`proximo presets`, `--preset my.toml` and `--print-config`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from proximo import ALGORITHMS
from proximo.cli.main import main
from proximo.cli.train import parse_arguments, run_config
from proximo.zoo import available_presets, load_preset
from proximo.zoo.measured import _table, measured_return

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "pybullet"


def test_all_presets_are_listed(capsys):
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {(line.split()[1], line.split()[3]) for line in lines if line.startswith("│")}
    assert rows == {(algorithm, name) for algorithm in ALGORITHMS for name in available_presets(algorithm)}


def test_a_pattern_chooses(capsys):
    assert main(["presets", "pendulum*", "--algo", "ppo"]) == 0
    printed = capsys.readouterr().out
    assert "3 presets" in printed
    assert str(measured_return("ppo", "Pendulum-v1")) in printed
    assert "(3 seeds)" in printed
    assert "100,000" in printed
    assert main(["presets", "CartPol-v1"]) == 2
    assert "did you mean 'CartPole-v1'" in capsys.readouterr().err
    assert main(["presets", "a2c"]) == 2
    assert "proximo presets --algo a2c" in capsys.readouterr().err
    assert main(["presets", "CartPole-v1", "--algo", "ppg"]) == 0
    assert capsys.readouterr().out.startswith("1 preset\n")
    assert main(["presets", "--algo", "a2d"]) == 2
    assert "'a2c'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env_id", "rows"),
    [
        ("ALE/Pong-v5", {(algorithm, "atari") for algorithm in ALGORITHMS if "atari" in available_presets(algorithm)}),
        ("procgen:starpilot", {("ppg", "procgen")}),
        ("MinAtar/Breakout-v1", {("ppo", "minatar"), ("ppg", "minatar")}),
        ("my_module:Ant-v4", {(name, "Ant-v4") for name in ALGORITHMS if "Ant-v4" in available_presets(name)}),
    ],
)
def test_an_environment_is_found_by_the_preset_that_trains_it(env_id, rows, capsys):
    """The id of a game is no preset's name, and `proximo train` has one for it all the same."""
    assert main(["presets", env_id]) == 0
    printed = capsys.readouterr().out
    found = {(line.split()[1], line.split()[3]) for line in printed.splitlines() if line.startswith("│")}
    assert found == rows
    assert f"for {env_id}" in printed.splitlines()[0]


def test_measured_returns_are_those_of_the_results():
    for algorithm, rows in _table().items():
        for name in rows:
            assert name in available_presets(algorithm)
            measured = measured_return(algorithm, name)
            if "Bullet" not in name:
                continue
            robot, noise = name.partition("BulletEnv")[0], "gaussian" if name.endswith(":gaussian") else "gsde"
            runs = [json.loads(path.read_text()) for path in RESULTS.glob(f"{robot}-{algorithm}-{noise}-*.json")]
            assert 1 <= measured.seeds <= len(runs)
            if measured.seeds == len(runs):  # else `python -m benchmarks.pybullet --table` brings it up to date
                assert measured.mean == pytest.approx(np.mean([np.mean(run["evaluation"]) for run in runs]), abs=0.06)


def test_the_printed_configuration_is_that_of_the_run(tmp_path, capsys):
    words = ["CartPole-v1", "--seed", "3", "--steps", "256", "--gamma", "0.9", "--eval-episodes", "0"]
    words += ["--workers", "0"]  # what auto decides is only known, and written down, when a run begins
    assert main(["train", *words, "--print-config", "--runs-dir", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr().out
    assert not (tmp_path / "runs").exists()
    assert main(["train", *words, "--runs-dir", str(tmp_path / "runs")]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "config.toml").read_text() == printed
    (tmp_path / "mine.toml").write_text(printed)
    again = run_config(parse_arguments(["--preset", str(tmp_path / "mine.toml")]))
    assert (again.env, again.seed, again.preset.arguments["gamma"]) == ("CartPole-v1", 3, 0.9)


def test_the_policy_is_printed_where_it_is_chosen(capsys):
    assert main(["train", "Acrobot-v1", "--algo", "ppg", "--print-config"]) == 0
    printed = capsys.readouterr()
    assert tomllib.loads(printed.out)["policy"] == "MlpPolicy"
    assert "no preset: ppg has no preset for Acrobot-v1: training with the defaults" in printed.err


def test_what_the_printed_configuration_leaves_at_its_default_is_told_beside_it(capsys):
    assert main(["train", "CartPole-v1", "--print-config", "--normalize", "true"]) == 0
    printed = capsys.readouterr()
    told = " ".join(printed.err.split())
    assert "at their defaults: frame_stack 1, atari_native False, use_sde False, sde_sample_freq -1" in told
    assert "not set: env_wrapper, env_kwargs, clip_range_vf, target_kl, policy_kwargs" in told
    assert tomllib.loads(printed.out)["normalize"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gamma", "3"], "gamma is 3.0; expected a number from 0 to 1"),
        (["--policy-kwargs", "net_arc = [3]"], "did you mean 'net_arch'"),
        (["--preset", "missing.toml"], "there is no file missing.toml"),
    ],
)
def test_a_printed_configuration_is_a_valid_one(words, message, capsys):
    assert main(["train", "CartPole-v1", "--print-config", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_file_is_a_preset(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('["CartPole-v1"]\nlike = "MountainCar-v0"\ngamma = 0.5\n')
    config = run_config(parse_arguments(["CartPole-v1", "--preset", "mine.toml", "--n-steps", "7"]))
    expected = load_preset("ppo", "MountainCar-v0").arguments | {"gamma": 0.5, "n_steps": 7}
    assert (config.preset.name, config.preset.arguments) == ("mine", expected)
    Path("tuned.toml").write_text('algo = "a2c"\nenv = "CartPole-v1"\nn_envs = 2\nvf_coef = 0.1\n')
    config = run_config(parse_arguments(["--preset", "tuned.toml"]))
    assert (config.algo, config.env, config.preset.arguments) == ("a2c", "CartPole-v1", {"vf_coef": 0.1})
    assert main(["train", "--preset", "tuned.toml", "--algo", "ppo"]) == 2
    assert "tuned.toml is for a2c, not ppo; leave --algo out" in capsys.readouterr().err
    Path("wrong.toml").write_text("gama = 0.5\n")
    assert main(["train", "CartPole-v1", "--preset", "wrong.toml"]) == 2
    assert "has no argument 'gama'; did you mean 'gamma'" in capsys.readouterr().err


def test_training_without_a_preset_says_so(tmp_path, capsys):
    words = ["--steps", "64", "--n-steps", "32", "--envs", "2", "--eval-episodes", "0", "--runs-dir", str(tmp_path)]
    assert main(["train", "CartPole-v0", *words]) == 0
    message = "no preset: ppo has no preset for CartPole-v0: training with the defaults; did you mean 'CartPole-v1'?"
    assert message in capsys.readouterr().out
