"""Ids that the command line takes: EnvPool's, Procgen's, MiniGrid's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("envpool", reason="needs EnvPool: pip install 'proximo[envpool]'")
pytest.importorskip("minigrid", reason="needs MiniGrid: pip install 'proximo[minigrid]'")

import gymnasium as gym

from proximo import PPO, make_vec_env
from proximo.cli.main import main
from proximo.cli.runs import Run
from proximo.envs import as_vec_env
from proximo.envs.make import versioned_id
from proximo.zoo.environments import make_preset_env
from proximo.zoo.presets import load_preset


def train(env: str, folder: Path, *flags: str) -> Run:
    words = ["train", env, "--runs-dir", str(folder), "--seed", "1", "--eval-episodes", "1", *flags]
    assert main(words) == 0
    return Run.open(next(path for path in folder.iterdir() if path.is_dir()))


def test_an_environment_of_env_pool(tmp_path: Path) -> None:
    """With the preset of the same environment of gymnasium's; an evaluation during the training too."""
    run = train("envpool:CartPole-v1", tmp_path, "--steps", "512", "--eval-every", "256")
    assert run.config.env == "envpool:CartPole-v1"
    assert run.config.preset.name == "CartPole-v1"
    assert (run.folder.path / "model.zip").is_file() or list(run.folder.path.glob("*.zip"))


def test_an_atari_game_of_env_pool() -> None:
    preset = load_preset("ppo", "envpool:Pong-v5")
    assert preset.name == "atari"
    env = make_preset_env(preset, "envpool:Pong-v5", n_envs=2, seed=0)
    assert env.observation_space.shape == (4, 84, 84)  # EnvPool stacks, and nothing stacks them again
    env.close()


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("procgen:starpilot", "StarpilotHard-v0"),
        ("procgen:starpilot-easy", "StarpilotEasy-v0"),
        ("procgen:procgen-maze-v0", "MazeHard-v0"),
        ("StarpilotHard-v0", "StarpilotHard-v0"),
    ],
)
def test_names_of_procgen(given: str, known: str) -> None:
    assert versioned_id(given) == known
    assert load_preset("ppg", versioned_id(given)).name == "procgen"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("procgen:starpilt", "did you mean 'starpilot'"),
        ("procgen:starpilot-soft", "distribution_mode is 'soft'"),
        ("envpool:CartPol-v1", "did you mean 'CartPole-v1'"),
    ],
)
def test_unknown_ones_have_near_matches(env: str, message: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["train", env, "--runs-dir", str(tmp_path), "--steps", "64"]) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_env_pool_plays_with_the_seed_of_its_making(tmp_path: Path, recwarn: Any) -> None:
    """Training and evaluation make it with their seeds, so that nothing is to be said about them."""
    train("envpool:CartPole-v1", tmp_path, "--steps", "256")
    assert not [warning for warning in recwarn if "seeded when it is made" in str(warning.message)]


def test_env_pool_takes_no_workers(tmp_path: Path, capsys: Any) -> None:
    assert main(["train", "envpool:CartPole-v1", "--runs-dir", str(tmp_path), "--workers"]) != 0
    assert "takes no worker processes" in " ".join(capsys.readouterr().err.split())


def test_mini_grid_in_python() -> None:
    """By its id, as an environment, and in copies: what the agent sees and its mission, as in the zoo's presets."""
    import minigrid  # noqa: F401 - registers its ids

    name = "MiniGrid-Empty-5x5-v0"
    for env in (as_vec_env(name), as_vec_env(gym.make(name)), make_vec_env(name, n_envs=2)):
        assert env.observation_space.shape == (7 * 7 * 3 + 96 * 28,)  # the view, and 96 letters
    PPO("MlpPolicy", name, n_steps=16, batch_size=16).learn(16)


def test_flags_of_the_new_hyperparameters(tmp_path: Path) -> None:
    flags = ("--steps", "256", "--learning-rate", "kl_0.01", "--normalize-returns", "true")
    run = train("CartPole-v1", tmp_path, *flags)
    assert run.config.preset.arguments["learning_rate"] == "kl_0.01"
    assert run.config.preset.arguments["normalize_returns"] is True
    again = load_again(run)
    assert (again.learning_rate, again.normalize_returns) == ("kl_0.01", True)


def load_again(run: Run) -> PPO:
    return PPO.load(next(run.folder.path.glob("*.zip")))


def test_a_text_that_is_no_rate_is_refused(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", "--learning-rate", "kl_x", "--steps", "64"])
    assert "kl_0.01" in capsys.readouterr().err
