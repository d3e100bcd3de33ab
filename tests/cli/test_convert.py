"""``proximo convert`` and ``proximo inspect``, on real files of both libraries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import proximo
from proximo.cli.main import main
from proximo.errors import ModelFileError

SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prediction(model: Any) -> Any:
    observations = np.random.default_rng(0).uniform(-1, 1, (8, *model.observation_space.shape)).astype(np.float32)
    return model.predict(observations, deterministic=True)[0]


def test_there_and_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = stable_baselines3.PPO("MlpPolicy", "Pendulum-v1", **SMALL).learn(16)
    theirs.save("theirs.zip")
    assert main(["convert", "theirs.zip", "ours.zip"]) == 0
    assert "load it with proximo.PPO.load" in capsys.readouterr().out
    ours = proximo.PPO.load("ours.zip", device="cpu")
    np.testing.assert_allclose(prediction(ours), prediction(theirs), atol=1e-6)
    assert main(["convert", "ours.zip", "back.zip"]) == 0
    assert "load it with stable_baselines3.PPO.load" in capsys.readouterr().out
    back = stable_baselines3.PPO.load("back.zip", device="cpu")
    np.testing.assert_allclose(prediction(back), prediction(theirs), atol=1e-6)
    assert back.num_timesteps == theirs.num_timesteps


def test_contrib_and_code_as_learning_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**SMALL, "learning_rate": lambda progress: 1e-3 * progress}
    sb3_contrib.RecurrentPPO("MlpLstmPolicy", "Pendulum-v1", **options).save("theirs.zip")
    assert main(["convert", "theirs.zip", "ours.zip"]) == 2
    complaint = capsys.readouterr().err
    assert "learning_rate (the function" in complaint
    assert "give a number in its place: --learning-rate 3e-4\n" in complaint
    assert "custom_objects" not in complaint
    assert not Path("ours.zip").exists()
    assert main(["convert", "theirs.zip", "ours.zip", "--learning-rate", "5e-4"]) == 0
    assert proximo.RecurrentPPO.load("ours.zip").learning_rate == 5e-4


def test_an_existing_file_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proximo.A2C("MlpPolicy", "CartPole-v1", device="cpu").save("model.zip")
    Path("there.zip").write_bytes(b"precious")
    assert main(["convert", "model.zip", "there.zip"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert Path("there.zip").read_bytes() == b"precious"
    assert main(["convert", "model.zip", "there.zip", "--overwrite"]) == 0
    assert stable_baselines3.A2C.load("there.zip").n_steps == 5


def test_statistics_there_and_back(folder: Path) -> None:
    theirs = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), clip_obs=7.0)
    theirs.reset()
    for _ in range(20):
        theirs.step(np.ones((1, 1)))
    theirs.save("theirs.pkl")
    assert main(["convert", "theirs.pkl", "ours.safetensors"]) == 0
    assert main(["convert", "ours.safetensors", "back.pkl"]) == 0
    back = VecNormalize.load("back.pkl", DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    np.testing.assert_array_equal(back.obs_rms.mean, theirs.obs_rms.mean)
    np.testing.assert_array_equal(back.ret_rms.var, theirs.ret_rms.var)
    assert (back.clip_obs, back.obs_rms.count) == (7.0, theirs.obs_rms.count)
    back.reset()
    back.step(np.ones((1, 1)))


def test_inspect_shows_what_is_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = proximo.PPO("MlpPolicy", "CartPole-v1", **SMALL, seed=7).learn(16)
    model.save("model.zip")
    assert main(["inspect", "model.zip"]) == 0
    shown = capsys.readouterr().out
    for text in ("Proximo model", "PPO", "Discrete(2)", "9,155", "policy.safetensors", "64 × 4", "batch_size"):
        assert text in shown, text
    model.save_checkpoint("checkpoint.zip")
    assert main(["inspect", "checkpoint.zip"]) == 0
    assert "Proximo checkpoint" in capsys.readouterr().out


def test_inspect_shows_classes_by_name(folder: Path) -> None:
    """In a process that has loaded no algorithm."""
    proximo.PPO("MlpPolicy", "CartPole-v1", **SMALL).save("model.zip")
    words = [sys.executable, "-m", "proximo", "inspect", "model.zip"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(r"learner_class +PPOLearner\s", told)
    assert '"$"' not in told


def test_inspect_names_the_code_in_a_foreign_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**SMALL, "learning_rate": lambda progress: 1e-3 * progress}
    stable_baselines3.PPO("MlpPolicy", "Pendulum-v1", **options).save("theirs.zip")
    assert main(["inspect", "theirs.zip"]) == 0
    shown = capsys.readouterr().out
    assert "Stable-Baselines3 model" in shown
    assert any("learning_rate" in line and "code, not run" in line for line in shown.splitlines())
    assert any("observation_space" in line and "data" in line for line in shown.splitlines())
    assert 'custom_objects={"learning_rate": …}' in shown
    VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])).save("statistics.pkl")
    assert main(["inspect", "statistics.pkl"]) == 0
    assert "a pickle, not run" in capsys.readouterr().out


def test_a_model_of_the_house_with_code_in_it_is_told_the_flag(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proximo.PPO("MlpPolicy", "CartPole-v1", **SMALL, clip_range=lambda progress: 0.2 * progress).save("ours.zip")
    assert main(["convert", "ours.zip", "theirs.zip"]) == 2
    assert "give a number in its place: --clip-range 0.2\n" in capsys.readouterr().err
    assert main(["convert", "ours.zip", "theirs.zip", "--clip-range", "0.1"]) == 0
    assert stable_baselines3.PPO.load("theirs.zip").clip_range(1.0) == 0.1


NO_MODELS = {
    "nothing": b"",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(16),
    "a text": b"hello there, this is no model",
    "half a zip": b"PK\x03\x04" + bytes(40),
}


@pytest.mark.parametrize("content", NO_MODELS.values(), ids=NO_MODELS)
@pytest.mark.parametrize("command", [["inspect", "file.zip"], ["convert", "file.zip", "out.zip"]], ids=lambda c: c[0])
def test_what_is_no_model_is_explained_as_load_does(
    command: list[str], content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file.zip").write_bytes(content)
    with pytest.raises(ModelFileError) as refused:
        proximo.PPO.load("file.zip")
    assert main(command) == 2
    assert capsys.readouterr().err == f"error: {refused.value}\n"


def test_damaged_statistics_are_explained_as_such(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])).save("theirs.pkl")
    assert main(["convert", "theirs.pkl", "ours.safetensors"]) == 0
    Path("half.safetensors").write_bytes(Path("ours.safetensors").read_bytes()[:100])
    assert main(["inspect", "half.safetensors"]) == 2
    assert "half.safetensors is damaged or no VecNormalize file: no safetensors" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "absent"]) == 2
    assert capsys.readouterr().err == "error: no model file absent or absent.zip; check the path\n"


def test_an_off_policy_model_is_called_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stable_baselines3.DQN("MlpPolicy", "CartPole-v1", buffer_size=8, device="cpu").save("dqn.zip")
    expected = "a model of an off-policy algorithm of Stable-Baselines3 (DQN, say), which Proximo does not have"
    assert main(["convert", "dqn.zip", "out.zip"]) == 2
    assert expected in capsys.readouterr().err
    with pytest.raises(ModelFileError, match="off-policy algorithm of Stable-Baselines3") as refused:
        proximo.PPO.load("dqn.zip")
    assert expected in str(refused.value)


def test_words_in_the_place_of_a_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", "model.zip", "out.zip", "--learning-rate", "x"])
    assert "expected a number, got 'x'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "inspect"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"proximo {command} model_from_sb3.zip" in capsys.readouterr().out
