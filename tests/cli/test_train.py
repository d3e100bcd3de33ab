"""``proximo train``: what it refuses and how it says so, what it takes from an earlier run, what it leaves behind."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from proximo import PPO
from proximo.cli import session
from proximo.cli.algorithms import default_arguments
from proximo.cli.main import main
from proximo.cli.runs import Run
from proximo.cli.train import parse_arguments, run_config
from proximo.errors import EnvWorkerError

PROXIMO = Path(sys.executable).parent / "proximo"
SHORT = ["--steps", "64", "--n-steps", "32", "--envs", "2", "--batch-size", "32", "--eval-episodes", "0", "--seed", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def untrained_run(folder, *words, algorithm=PPO) -> Run:
    config = run_config(parse_arguments(["CartPole-v1", "--seed", "1", *words]))
    return Run.create(folder, config.completed(default_arguments(algorithm), "MlpPolicy"))


def error_of(words, capsys) -> str:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the id of an environment"),
        (["CartPole-v1", "--device", "mps"], "--device is 'mps', no device of PyTorch on this machine"),
        (["CartPole-v1", "--policy-kwargs", "net_arhc = [64]"], "no argument 'net_arhc'; did you mean 'net_arch'?"),
        (["CartPole-v1", "--algo", "ppg", "--policy-kwargs", "orto_init = true"], "did you mean 'ortho_init'"),
        (["CartPole-v1", "--runs-dir", "file"], "--runs-dir is file, which is a file; expected a folder"),
        (["CartPole-v1", "--tensorboard"], "needs the package 'tensorboard'"),
    ],
)
def test_refused_before_a_folder_is_made(words, message, folder, capsys, monkeypatch):
    Path("file").touch()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert message in error_of(["train", *words], capsys)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        ("ppo", "gamma"),
        ("ppo", "gae_lambda"),
        ("ppo", "max_grad_norm"),
        ("ppo", "ent_coef"),
        ("ppo", "target_kl"),
        ("ppg", "kl_coef"),
        ("a2c", "rms_prop_eps"),
        ("trpo", "cg_damping"),
        ("trpo", "line_search_shrinking_factor"),
        ("trpo", "target_kl"),
    ],
)
def test_a_text_in_the_place_of_a_number_is_named(algorithm, name, folder, capsys):
    run = untrained_run(folder)
    config = tomllib.loads(run.folder.config.read_text())
    run.folder.write_config({"env": "CartPole-v1", "algo": algorithm, "seed": 1, "preset": config["preset"], name: "x"})
    assert f"{name} is 'x'; expected a" in error_of(["train", "--preset", str(run.folder.path)], capsys)


def test_a_missing_cuda_is_a_warning(folder, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["train", "CartPole-v1", "--preset", "none", *SHORT, "--device", "cuda"]) == 0
    assert "warning: --device is 'cuda', but PyTorch finds no CUDA" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 400])
def test_the_path_of_the_run_folder_is_never_cut(width, folder, monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(session, "output", lambda: console)
    deep = "folder" * 20
    assert main(["train", "CartPole-v1", "--preset", "none", *SHORT, "--runs-dir", deep]) == 0
    (run,) = Path(deep).iterdir()
    assert f"run folder        {run}\n" in screen.getvalue()


def test_an_id_without_version_has_the_preset_of_the_newest():
    config = run_config(parse_arguments(["CartPole"]))
    assert (config.env, config.preset.name) == ("CartPole-v1", "CartPole-v1")


def test_a_run_is_repeated_with_its_environment_and_algorithm(folder, capsys):
    from proximo import A2C

    run = str(untrained_run(folder, "--algo", "a2c", "--rms-prop-eps", "1e-3", algorithm=A2C).folder.path)
    repeated = run_config(parse_arguments(["--preset", run, "--n-steps", "7"]))
    assert (repeated.env, repeated.algo, repeated.seed) == ("CartPole-v1", "a2c", 1)
    assert (repeated.preset.arguments["rms_prop_eps"], repeated.preset.arguments["n_steps"]) == (1e-3, 7)
    elsewhere = run_config(parse_arguments(["Acrobot-v1", f"--preset={run}"]))
    assert (elsewhere.env, elsewhere.preset.arguments["rms_prop_eps"]) == ("Acrobot-v1", 1e-3)
    message = error_of(["train", "CartPole-v1", "--algo", "ppo", "--preset", run], capsys)
    assert "is for a2c, not ppo; leave --algo out" in message


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), EnvWorkerError("a worker was killed")], ids=str
)
def test_a_training_that_fails_says_how_to_go_on(failure, folder, capsys, monkeypatch):
    save = PPO.save_checkpoint

    def save_once(self, path, state=None):
        if self.num_timesteps:
            raise failure
        return save(self, path, state)

    monkeypatch.setattr(PPO, "save_checkpoint", save_once)
    assert main(["train", "CartPole-v1", "--preset", "none", *SHORT, "--checkpoint-every", "32"]) == 2
    lines = capsys.readouterr().err.splitlines()
    (run,) = Path("runs").iterdir()
    assert lines == [
        f"error: {getattr(failure, 'strerror', None) or failure}",
        f"the traceback is in {run / 'error.txt'}",
        f"go on with: proximo train --resume {run}",
    ]


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["train", "CartPole-v1", "--preset", "none", *SHORT]]
)
def test_a_reader_that_goes_away_is_no_error(words, folder):
    """As in `proximo … | head -1`: what reads the output has closed it."""
    process = subprocess.Popen([PROXIMO, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 141, complaints
    assert complaints == ""


def test_minigrid_trains_as_it_is_named(folder, capsys):
    """Its observations hold a sentence, which nobody is asked about: it is spelt in numbers behind the agent's view."""
    pytest.importorskip("minigrid")
    assert main(["train", "MiniGrid-Empty-5x5-v0", *SHORT]) == 0
    (run,) = Path("runs").iterdir()
    model = PPO.load(run / "model.zip")
    assert model.observation_space.shape == (7 * 7 * 3 + 96 * 28,)
    assert model.num_timesteps == 64
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0
