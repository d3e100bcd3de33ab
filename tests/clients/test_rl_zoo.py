"""RL Zoo as it is: train, continue, watch, film and optimise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rl_zoo3")
pytestmark = pytest.mark.slow

Run = Callable[..., str]
IsOurs = Callable[[Path], bool]
WAYS = pytest.mark.parametrize("way", ["replaced", "algorithm"])


@WAYS
def test_train_continue_watch_and_film(way: str, run: Run, proximo_model: IsOurs, tmp_path: Path) -> None:
    cartpole = ("--algo", "ppo", "--env", "CartPole-v1", "-f", "logs")
    run(way, "rl_zoo3.train", *cartpole, "-n", 2048, "--eval-freq", 1024, "--save-freq", 1024, "-tb", "board")
    folder = tmp_path / "logs/ppo/CartPole-v1_1"
    assert proximo_model(folder / "CartPole-v1.zip")
    assert proximo_model(folder / "best_model.zip")
    assert proximo_model(folder / "rl_model_1024_steps.zip")
    assert np.load(folder / "evaluations.npz")["timesteps"].tolist() == [1024, 2048]
    assert list((tmp_path / "board").rglob("events.out.tfevents*"))
    # the zoo's preset has lin_0.001 for the rate: its own class of schedule
    printed = run(way, "rl_zoo3.train", *cartpole, "-n", 512, "-i", folder / "CartPole-v1.zip")
    assert "Loading pretrained agent" in printed
    assert proximo_model(tmp_path / "logs/ppo/CartPole-v1_2/CartPole-v1.zip")
    watched = run(way, "rl_zoo3.enjoy", *cartpole, "--no-render", "-n", 200, "--exp-id", 1)
    assert "Mean reward" in watched
    run(way, "rl_zoo3.record_video", *cartpole, "-n", 40, "--exp-id", 1)
    assert list(folder.glob("videos/*.mp4"))


@WAYS
def test_continue_a_model_of_stable_baselines3(way: str, run: Run, proximo_model: IsOurs, tmp_path: Path) -> None:
    """Its file holds the zoo's schedule as a pickle of the zoo's class."""
    cartpole = ("--algo", "ppo", "--env", "CartPole-v1", "-f", "logs", "-n", 512, "--eval-freq", -1)
    run("real", "rl_zoo3.train", *cartpole)
    trained = tmp_path / "logs/ppo/CartPole-v1_1/CartPole-v1.zip"
    run(way, "rl_zoo3.train", *cartpole, "-i", trained)
    assert proximo_model(tmp_path / "logs/ppo/CartPole-v1_2/CartPole-v1.zip")


@WAYS
def test_normalisation_is_found_saved_and_resumed(way: str, run: Run, proximo_model: IsOurs, tmp_path: Path) -> None:
    pendulum = ("--algo", "a2c", "--env", "Pendulum-v1", "-f", "logs", "-n", 512, "--eval-freq", 256)
    run(way, "rl_zoo3.train", *pendulum)
    folder = tmp_path / "logs/a2c/Pendulum-v1_1"
    assert (folder / "Pendulum-v1/vecnormalize.pkl").exists()
    printed = run(way, "rl_zoo3.train", *pendulum, "-i", folder / "Pendulum-v1.zip")
    assert "Loading saved VecNormalize stats" in printed
    assert proximo_model(tmp_path / "logs/a2c/Pendulum-v1_2/Pendulum-v1.zip")
    assert "Mean reward" in run(way, "rl_zoo3.enjoy", *pendulum[:-4], "-n", 450, "--no-render")


@WAYS
@pytest.mark.parametrize(
    ("algorithm", "env", "hyperparameters"),
    [
        ("trpo", "CartPole-v1", ("n_envs:2", "n_steps:64")),
        ("ppo_lstm", "CartPole-v1", ("n_envs:2", "n_steps:32")),
        ("ppo", "PongNoFrameskip-v4", ("n_envs:2", "n_steps:32", "batch_size:32")),
    ],
)
def test_other_algorithms_and_atari(
    way: str,
    algorithm: str,
    env: str,
    hyperparameters: tuple[str, ...],
    run: Run,
    proximo_model: IsOurs,
    tmp_path: Path,
) -> None:
    arguments = ("--algo", algorithm, "--env", env, "-f", "logs", "-n", 128, "--eval-freq", -1)
    run(way, "rl_zoo3.train", *arguments, "--vec-env", "subproc", "-params", *hyperparameters)
    assert proximo_model(tmp_path / f"logs/{algorithm}/{env}_1/{env}.zip")


@WAYS
def test_optimise_hyperparameters(way: str, run: Run, tmp_path: Path) -> None:
    search = ("-optimize", "--n-trials", 3, "--sampler", "random", "--pruner", "none", "--no-optim-plots")
    arguments = ("--algo", "ppo", "--env", "CartPole-v1", "-f", "logs", "-n", 512, "--n-evaluations", 2)
    printed = run(way, "rl_zoo3.train", *arguments, *search)
    assert "Number of finished trials:  3" in printed
    assert list((tmp_path / "logs/ppo").glob("report_*.csv"))


def test_a_zoo_of_both(run: Run, tmp_path: Path) -> None:
    """Off-policy algorithms stay the real ones while the imports are answered by the compatibility packages."""
    pendulum = ("--algo", "sac", "--env", "Pendulum-v1", "-f", "logs", "-n", 150, "--eval-freq", -1)
    run("replaced", "rl_zoo3.train", *pendulum)
    assert (tmp_path / "logs/sac/Pendulum-v1_1/Pendulum-v1.zip").exists()
