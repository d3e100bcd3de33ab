"""What `proximo train` does while it trains: evaluations and films, which must not change what is learnt."""

from __future__ import annotations

import csv
import shutil
import signal
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image

from proximo import PPO, RecurrentPPO
from proximo.cli import during
from proximo.cli.algorithms import algorithm_class
from proximo.cli.main import main
from proximo.cli.runs import Run
from proximo.cli.train import parse_arguments, run_config
from proximo.training.signals import StopOnSignal

SHORT = ["--steps", "768", "--n-steps", "64", "--envs", "4", "--seed", "3", "--eval-episodes", "3"]
CLOCK = ("time/fps", "time/time_elapsed")


def trained(folder: Path, env: str, *words: str) -> Path:
    assert main(["train", env, *SHORT, "--runs-dir", str(folder), *words]) == 0
    (run,) = folder.iterdir()
    return run


def weights(run: Path, file: str = "model.zip") -> torch.Tensor:
    policy = algorithm_class(Run.open(run).config.algo).load(run / file).policy
    return torch.cat([value.flatten() for value in policy.state_dict().values()])


def rows(run: Path) -> list[dict[str, str]]:
    found = list(csv.DictReader((run / "progress.csv").open()))
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in found]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("CartPole-v1", []),
        ("Pendulum-v1", ["--normalize", "true", "--use-sde", "true", "--sde-sample-freq", "4"]),
        ("CartPole-v1", ["--algo", "recurrent_ppo", "--preset", "CartPole-v1:no-velocity", "--n-epochs", "1"]),
    ],
    ids=["plain", "normalised, gSDE", "memory"],
)
def test_evaluations_and_films_do_not_change_the_training(env, words, tmp_path, monkeypatch):
    monkeypatch.setattr(during, "FILM_SECONDS", 0.5)
    plain = trained(tmp_path / "plain", env, *words)
    watched = trained(tmp_path / "watched", env, *words, "--eval-every", "256", "--record-every", "500")
    assert torch.equal(weights(plain), weights(watched))
    learnt = [row for row in rows(watched) if row["train/n_updates"]]
    for before, after in zip(rows(plain), learnt, strict=True):
        assert all(after[key] == value for key, value in before.items())
    evaluations = [row for row in rows(watched) if row["eval/mean_reward"]]
    assert [int(row["time/total_timesteps"]) for row in evaluations] == [256, 512, 768]
    assert [path.name for path in (watched / "films").iterdir()] == ["step_512.gif"]
    assert Image.open(watched / "films" / "step_512.gif").n_frames > 3


def test_files_are_those_of_the_real_eval_callback(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env

    run = trained(tmp_path / "runs", "CartPole-v1", "--eval-every", "250")  # 62 steps of four environments
    model = sb3.PPO("MlpPolicy", make_vec_env("CartPole-v1", 4, seed=3), n_steps=64, seed=3)
    theirs = EvalCallback(
        make_vec_env("CartPole-v1", 3, seed=9), n_eval_episodes=3, eval_freq=250 // 4, log_path=tmp_path, verbose=0
    )
    model.learn(768, callback=theirs)
    ours, expected = np.load(run / "evaluations.npz"), np.load(tmp_path / "evaluations.npz")
    assert set(ours.files) == set(expected.files)
    for name in expected.files:
        assert ours[name].shape == expected[name].shape
        assert ours[name].dtype == expected[name].dtype
    np.testing.assert_array_equal(ours["timesteps"], expected["timesteps"])
    # CartPole returns its length: what is written belongs together
    np.testing.assert_array_equal(ours["results"], ours["ep_lengths"])


def test_the_best_model_is_that_of_the_best_evaluation(tmp_path, capsys):
    run = trained(tmp_path, "CartPole-v1", "--eval-every", "256")
    printed = capsys.readouterr().out
    results = np.load(run / "evaluations.npz")["results"].mean(axis=1)
    assert PPO.load(run / "best.zip").num_timesteps == 256 * (1 + int(results.argmax()))
    assert printed.count("(the best so far)") == len({max(results[: end + 1]) for end in range(len(results))})
    assert f"256 steps: mean return {results[0]:.1f}" in printed
    assert "  best model      best.zip\n" in printed
    assert not (run / "checkpoints" / "best.zip").exists()  # one best is enough
    assert main(["evaluate", str(run), "--model", "best.zip", "--episodes", "2"]) == 0


def test_an_interval_longer_than_the_training_is_said(tmp_path, capsys):
    words = ["--eval-every", "1e5", "--record-every", "768"]
    run = trained(tmp_path, "CartPole-v1", *words)
    printed = "".join(capsys.readouterr())
    assert "--eval-every is 100,000, but the training ends after 768 steps" in " ".join(printed.split())
    assert "--record-every is" not in printed
    assert not (run / "best.zip").exists()


def test_evaluations_see_other_episodes_each_time(tmp_path):
    """Pendulum's first returns differ only by where the pendulum starts, since nothing has been learnt."""
    words = ["--learning-rate", "0", "--eval-every", "256"]
    run = trained(tmp_path, "Pendulum-v1", *words)
    results = np.load(run / "evaluations.npz")["results"]
    assert len(np.unique(results)) == results.size


@pytest.mark.parametrize("mode", ["state", "boundary"])
def test_a_resumed_training_has_the_same_evaluations(mode, tmp_path):
    words = ["--eval-every", "200", "--checkpoint-mode", mode, "--checkpoint-every", "256", "--keep-checkpoints", "9"]
    run = trained(tmp_path, "Pendulum-v1", "--normalize", "true", *words)
    expected = rows(run), dict(np.load(run / "evaluations.npz")), weights(run), weights(run, "best.zip")
    for name in ("model.zip", "best.zip", "evaluations.npz", "result.json"):
        (run / name).unlink()
    assert main(["train", "--resume", str(run / "checkpoints" / "model_512_steps.zip")]) == 0
    assert rows(run) == expected[0]
    for name, values in np.load(run / "evaluations.npz").items():
        np.testing.assert_array_equal(values, expected[1][name])
    assert torch.equal(weights(run), expected[2])
    if (run / "best.zip").exists():  # the best may have been before the checkpoint
        assert torch.equal(weights(run, "best.zip"), expected[3])


def test_a_signal_during_an_evaluation_gives_it_up_and_resuming_repeats_it(tmp_path, monkeypatch):
    words = ["--eval-every", "300", "--checkpoint-every", "256"]
    straight = trained(tmp_path / "straight", "CartPole-v1", *words)
    evaluate = during.evaluate

    def interrupted(model, env, episodes, **options):
        if model.num_timesteps == 600:
            signal.raise_signal(signal.SIGTERM)
        return evaluate(model, env, episodes, **options)

    monkeypatch.setattr(during, "evaluate", interrupted)
    folder = tmp_path / "stopped"
    assert main(["train", "CartPole-v1", *SHORT, *words, "--runs-dir", str(folder)]) == 128 + signal.SIGTERM
    (run,) = folder.iterdir()
    assert list(np.load(run / "evaluations.npz")["timesteps"]) == [300]
    assert not (run / "result.json").exists()
    monkeypatch.setattr(during, "evaluate", evaluate)
    assert main(["train", "--resume", str(run)]) == 0
    assert rows(run) == rows(straight)
    assert torch.equal(weights(run), weights(straight))


def test_a_rollout_with_an_evaluation_is_expected_to_be_long():
    stop = StopOnSignal(None, lambda: True)
    assert stop.expects_long()
    assert not StopOnSignal().expects_long()


def test_until_goes_on_evaluating(tmp_path):
    run = trained(tmp_path, "CartPole-v1", "--eval-every", "256", "--until", "9.5")
    assert (run / "evaluations.npz").exists()
    arguments = parse_arguments(["CartPole-v1", "--eval-every", "9", "--eval-episodes", "0"])
    with pytest.raises(ValueError, match="--eval-episodes is 0; expected at least 1"):
        run_config(arguments)


def test_the_result_says_what_came_out(tmp_path):
    run = Run.open(trained(tmp_path, "CartPole-v1"))
    result = run.folder.read_result()
    assert result is not None
    assert result["steps"] == 768
    assert len(result["evaluation"]["episode_rewards"]) == 3
    assert result["evaluation"]["episode_rewards"] == result["evaluation"]["episode_lengths"]
    shutil.copy(run.folder.config, run.folder.result)
    with pytest.raises(ValueError, match="not valid JSON"):
        run.folder.read_result()


def test_a_resume_does_not_repeat_the_film_of_its_checkpoint(tmp_path, capsys):
    run = trained(tmp_path, "CartPole-v1", "--record-every", "500", "--pause-at", "512")
    assert "512 steps: film" in capsys.readouterr().out
    assert main(["train", "--resume", str(run)]) == 0
    assert "512 steps: film" not in capsys.readouterr().out


def test_films_that_cannot_be_made_are_refused_before_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pygame", None)
    words = ["train", "CartPole-v1", "--record-every", "100", "--runs-dir", str(tmp_path / "runs")]
    assert main(words) == 2
    assert "needs the package 'pygame'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_masked_evaluations_mask(tmp_path, monkeypatch):
    monkeypatch.delitem(gymnasium.registry, "OnlyOneIs-v0", raising=False)
    gymnasium.register("OnlyOneIs-v0", "proximo.envs.testing.environments:InvalidActionEnvDiscrete")
    arguments = "dim = 5, ep_length = 10, n_invalid_actions = 4"
    run = trained(tmp_path, "OnlyOneIs-v0", "--algo", "maskable_ppo", "--env-kwargs", arguments, "--eval-every", "256")
    assert (np.load(run / "evaluations.npz")["results"] == 10).all()


def test_memory_is_evaluated_with_its_memory(tmp_path):
    run = trained(tmp_path, "CartPole-v1", "--algo", "recurrent_ppo", "--n-epochs", "1", "--eval-every", "512")
    assert RecurrentPPO.load(run / "best.zip").num_timesteps == 512
