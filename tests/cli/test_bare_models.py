"""`proximo evaluate` and `proximo watch` with a model file that is in no run folder."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from proximo import PPO
from proximo.analysis.evaluation import evaluate
from proximo.cli.main import main
from proximo.cli.runs import Run
from proximo.envs import make_vec_env


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "mine.zip"
    PPO("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0), n_steps=64, seed=0).learn(128).save(path)
    return path


def test_a_model_file_is_evaluated(model, capsys):
    assert main(["evaluate", str(model), "--env", "CartPole-v1", "--episodes", "4", "--seed", "5"]) == 0
    printed = capsys.readouterr().out
    expected = evaluate(PPO.load(model), make_vec_env("CartPole-v1", 4, seed=5), 4)
    assert "PPO on CartPole-v1, 4 episodes" in printed
    assert f"{expected.mean:.2f}" in printed


def test_several_model_files_are_a_row_each(model, tmp_path, capsys):
    other = shutil.copy(model, tmp_path / "other.zip")
    assert main(["evaluate", str(model), str(other), "--env", "CartPole", "--episodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert "mine.zip" in printed
    assert "other.zip" in printed


def test_a_model_file_is_filmed(model, tmp_path):
    assert main(["watch", str(model), "--env", "CartPole-v1", "--seconds", "0.4", "-o", str(tmp_path / "a.gif")]) == 0
    assert Image.open(tmp_path / "a.gif").size == (480, 320)


def test_normalised_observations_stay_normalised(tmp_path, capsys):
    """Without its statistics, a policy sees numbers of another scale."""
    words = ["--preset", "none", "--normalize", "true", "--steps", "512", "--n-steps", "256", "--seed", "0"]
    assert main(["train", "Pendulum-v1", *words, "--eval-episodes", "0", "--runs-dir", str(tmp_path / "runs")]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    alone = shutil.copy(run / "model.zip", tmp_path / "alone.zip")
    capsys.readouterr()
    printed = []
    for path, env in ((run, []), (alone, ["--env", "Pendulum-v1", "--preset", "none"])):
        assert main(["evaluate", str(path), *env, "--episodes", "2", "--seed", "1"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0].split("return")[1:] == printed[1].split("return")[1:]
    assert Run.of_model(alone, "Pendulum-v1").config.preset.normalize is True


def test_models_of_stable_baselines3(tmp_path, capsys):
    sb3 = pytest.importorskip("stable_baselines3")
    sb3.A2C("MlpPolicy", "CartPole-v1", seed=0).save(tmp_path / "theirs.zip")
    assert main(["evaluate", str(tmp_path / "theirs.zip"), "--env", "CartPole-v1", "--episodes", "2"]) == 0
    assert "A2C on CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate MODEL", "is in no run folder; say what it plays: --env CartPole-v1"),
        ("watch MODEL", "is in no run folder; say what it plays: --env CartPole-v1"),
        ("evaluate . --env CartPole-v1", "--env is for a model file, and . is none"),
        ("evaluate MODEL --preset CartPole-v1", "give --env too"),
        ("evaluate MODEL --env CartPole-v1 --preset CartPole-v2", "did you mean 'CartPole-v1'"),
        ("evaluate MODEL --env Acrobot-v1", "observation"),
        ("evaluate MODEL --env CartPol-v1", "unknown environment id"),
        ("evaluate statistics.pkl --env CartPole-v1", "none of the algorithms that can be played"),
    ],
)
def test_mistakes_are_explained(words, message, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    from proximo.envs import VecNormalize

    VecNormalize(make_vec_env("CartPole-v1", 1)).save("statistics.pkl")
    assert main([str(model) if word == "MODEL" else word for word in words.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert np.sum([line.startswith("error: ") for line in error.splitlines()]) == 1
