"""The commands as a person runs them, in real processes and on a real run folder."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from itertools import islice
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

from proximo import A2C, PPO
from proximo.cli import bench, evaluate, plot, train, watch
from proximo.cli.main import COMMANDS, main
from proximo.cli.playing import evaluate_run, load_agent
from proximo.cli.runs import Run
from proximo.envs import make_vec_env
from proximo.exploration import ICM, RND

PROXIMO = Path(sys.executable).parent / "proximo"


def run_proximo(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROXIMO, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder made by the real command, and what the command printed."""
    folder = tmp_path_factory.mktemp("work")
    result = run_proximo(
        "train", "CartPole-v1", "--steps", "2000", "--seed", "3", "--gamma", "0.97", "--eval-episodes", "5",
        "--checkpoint-every", "1000", "--video", folder=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (run,) = (folder / "runs").iterdir()
    return run, result.stdout


def test_train_prints_the_evaluation_and_the_folder(trained):
    run, printed = trained
    assert "PPO on CartPole-v1: 2,000 steps, 8 environments, preset CartPole-v1, seed 3" in printed
    assert "95 % interval" in printed
    assert f"runs/{run.name}" in printed
    for name in ("model.zip", "progress.csv, progress.jsonl", "learning_curve.png", "video.gif"):
        assert name in printed


def test_run_folder_describes_itself(trained):
    run, _ = trained
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["env"], config["algo"], config["seed"], config["n_timesteps"]) == ("CartPole-v1", "ppo", 3, 2000)
    assert (config["gamma"], config["learning_rate"], config["vf_coef"]) == (0.97, "lin_0.001", 0.5)
    assert json.loads((run / "versions.json").read_text())["packages"]["proximo"]


def test_metrics_are_the_same_in_both_files(trained):
    run, _ = trained
    rows = list(csv.DictReader((run / "progress.csv").open()))
    lines = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) == 8  # rollouts of 8 · 32 steps
    assert [int(row["time/total_timesteps"]) for row in rows] == [256 * count for count in range(1, 9)]
    assert float(rows[-1]["train/learning_rate"]) == lines[-1]["train/learning_rate"] == 0.0
    assert float(rows[3]["rollout/ep_rew_mean"]) == pytest.approx(lines[3]["rollout/ep_rew_mean"])


def test_pictures_are_pictures(trained):
    run, _ = trained
    assert Image.open(run / "learning_curve.png").size == (1600, 960)
    film = Image.open(run / "video.gif")
    assert film.size == (480, 320)
    assert film.n_frames > 50
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == [
        "best.zip",
        "model_0_steps.zip",
        "model_1024_steps.zip",
        "model_2048_steps.zip",
    ]


def test_evaluate_repeats_itself(trained, capsys):
    run, _ = trained
    printed = []
    for _ in range(2):
        assert main(["evaluate", str(run), "--episodes", "4", "--seed", "5"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "PPO on CartPole-v1, 4 episodes" in printed[0]


def test_the_seed_decides_which_episodes_are_played(trained):
    run, _ = trained
    lengths = [evaluate_run(Run.open(run), 4, seed=seed).episode_lengths for seed in (5, 5, 6)]
    assert lengths[0] == lengths[1]
    _, env = load_agent(Run.open(run), n_envs=4, seed=5)
    shown = env.reset()
    np.testing.assert_array_equal(shown, make_vec_env("CartPole-v1", 4, seed=5).reset())


def test_evaluate_a_checkpoint(trained, capsys):
    run, _ = trained
    assert main(["evaluate", str(run), "--episodes", "2", "--model", "checkpoints/model_1024_steps.zip"]) == 0
    assert main(["evaluate", str(run), "--model", "nothing.zip"]) == 2
    assert "there is no model nothing.zip" in capsys.readouterr().err


def test_watch_films(trained, tmp_path, capsys):
    run, _ = trained
    assert main(["watch", str(run), "--seconds", "0.4", "-o", str(tmp_path / "film.gif")]) == 0
    film = Image.open(tmp_path / "film.gif")
    assert (film.size, film.info["duration"]) == ((480, 320), 40)
    assert 1 < film.n_frames <= 10
    assert main(["watch", str(run), "--seconds", "0.4", "-o", str(tmp_path / "film.mp4")]) == 0
    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"


def test_plot_several_runs(trained, tmp_path, monkeypatch, capsys):
    run, _ = trained
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(run, tmp_path / "other")
    (other / "config.toml").write_text((run / "config.toml").read_text().replace("seed = 3", "seed = 4"))
    assert main(["plot", str(run), str(other)]) == 0
    assert capsys.readouterr().out.strip() == "learning_curve.png"
    assert Image.open(tmp_path / "learning_curve.png").size == (1600, 960)
    assert main(["plot", str(run), "--y", "train/los"]) == 2
    assert "did you mean 'train/loss'" in capsys.readouterr().err


def test_a_run_can_be_repeated(trained, capsys, tmp_path):
    run, _ = trained
    assert (
        main(["train", "CartPole-v1", "--preset", str(run), "--runs-dir", str(tmp_path), "--eval-episodes", "0"]) == 0
    )
    (again,) = tmp_path.iterdir()
    configurations = [(folder / "config.toml").read_text().partition("\n[session]\n") for folder in (again, run)]
    assert configurations[0][0] == configurations[1][0]  # what is trained; a session is what is done besides
    kept = ("rollout/ep_rew_mean", "train/loss", "train/approx_kl")
    first, second = (list(csv.DictReader((folder / "progress.csv").open())) for folder in (run, again))
    assert [[row[key] for key in kept] for row in first] == [[row[key] for key in kept] for row in second]


def test_until_trains_on_and_says_when_it_is_not_reached(tmp_path, capsys):
    words = ["--steps", "256", "--seed", "0", "--eval-episodes", "2", "--runs-dir", str(tmp_path)]
    assert main(["train", "CartPole-v1", *words, "--until", "10000"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("is below 10000: training on") > 1
    (run,) = tmp_path.iterdir()
    steps = [int(row["time/total_timesteps"]) for row in csv.DictReader((run / "progress.csv").open())]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 5 * 256
    assert main(["train", "CartPole-v1", *words, "--until", "1"]) == 0
    assert "training on" not in capsys.readouterr().out


def test_normalised_runs_evaluate_with_the_statistics_of_training(tmp_path, capsys):
    words = ["--preset", "none", "--normalize", "true", "--steps", "256", "--n-steps", "256", "--seed", "0"]
    assert main(["train", "Pendulum-v1", *words, "--eval-episodes", "2", "--runs-dir", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    model, env = load_agent(Run.open(run), n_envs=1, seed=0)
    normalizer = model.get_vec_normalize_env()
    assert normalizer is not None
    assert normalizer.obs_rms.count > 256
    assert not normalizer.training
    before = normalizer.obs_rms.count
    env.reset()
    assert normalizer.obs_rms.count == before


ALGORITHMS = {  # flags that make a short training, and the policy that is chosen
    "a2c": (["--steps", "200"], "MlpPolicy", "A2C"),
    "trpo": (["--steps", "256", "--n-steps", "256"], "MlpPolicy", "TRPO"),
    "daac": (["--steps", "256"], "MlpPolicy", "DAAC"),
    "recurrent_ppo": (["--steps", "128", "--n-epochs", "1"], "MlpLstmPolicy", "RecurrentPPO"),
}


@pytest.mark.parametrize(("algorithm", "expected"), ALGORITHMS.items(), ids=ALGORITHMS)
def test_every_algorithm_trains_and_is_evaluated(algorithm, expected, tmp_path, capsys):
    words, policy, title = expected
    command = ["train", "CartPole-v1", "--algo", algorithm, "--seed", "0", "--eval-episodes", "2", *words]
    assert main([*command, "--runs-dir", str(tmp_path)]) == 0
    assert f"{title} on CartPole-v1: " in capsys.readouterr().out
    (run,) = tmp_path.iterdir()
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["algo"], config["policy"]) == (algorithm, policy)
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert f"{title} on CartPole-v1" in capsys.readouterr().out
    assert main(["watch", str(run), "--seconds", "0.1", "-o", str(tmp_path / "film.gif")]) == 0
    assert main(["train", "CartPole-v1", "--algo", algorithm, "--preset", str(run), "--runs-dir", str(tmp_path)]) == 0


def test_recurrent_runs_write_down_their_own_defaults(tmp_path):
    """RecurrentPPO shares PPO's configuration class, but not its defaults."""
    words = ["--algo", "recurrent_ppo", "--steps", "128", "--n-epochs", "1", "--seed", "0", "--eval-episodes", "0"]
    assert main(["train", "CartPole-v1", *words, "--runs-dir", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["n_steps"], config["batch_size"], config["n_epochs"]) == (128, 128, 1)


def test_masked_runs_mask_in_training_and_in_play(tmp_path, capsys, monkeypatch):
    """Only the right action is ever allowed, so every episode of ten steps returns ten, trained or not."""
    monkeypatch.delitem(gymnasium.registry, "OnlyOneAllowed-v0", raising=False)
    gymnasium.register("OnlyOneAllowed-v0", "proximo.envs.testing.environments:InvalidActionEnvDiscrete")
    arguments = "dim = 5, ep_length = 10, n_invalid_actions = 4"
    command = ["train", "OnlyOneAllowed-v0", "--algo", "maskable_ppo", "--env-kwargs", arguments, "--seed", "0"]
    words = ["--steps", "64", "--n-steps", "64", "--eval-episodes", "3", "--runs-dir", str(tmp_path)]
    assert main([*command, *words]) == 0
    (run,) = tmp_path.iterdir()
    last = list(csv.DictReader((run / "progress.csv").open()))[-1]
    assert float(last["rollout/ep_rew_mean"]) == 10.0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "3"]) == 0
    assert "10.00" in capsys.readouterr().out
    from proximo.analysis.evaluation import play

    model, env = load_agent(Run.open(run), n_envs=1, seed=0)
    steps = islice(play(model, env, deterministic=False, use_masking=True), 31)
    assert sum(float(step.rewards[0]) for step, _ in steps if step is not None) == 30.0


FRAGILE = '''
import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv


class Fragile(CartPoleEnv):
    """Crashes at the 50th step of its life and shows NaN at the 70th."""

    lived = 0

    def step(self, action):
        self.lived += 1
        if self.lived == 50 and not self.np_random.integers(2):
            raise RuntimeError("the simulator broke")
        observation, *rest = super().step(action)
        return (observation * np.nan if self.lived == 70 else observation), *rest


gym.register("Fragile-v0", entry_point=Fragile, max_episode_steps=500)
'''


def test_a_training_outlives_failures_if_it_is_told_to(tmp_path, monkeypatch):
    (tmp_path / "fragile.py").write_text(FRAGILE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ["train", "fragile:Fragile-v0", "--envs", "4", "--steps", "1024", "--n-steps", "128", "--seed", "1",
             "--eval-episodes", "0", "--checkpoint-mode", "off", "--workers"]  # fmt: skip
    strict = run_proximo(*words, folder=tmp_path)
    assert strict.returncode == 2
    assert "the simulator broke" in strict.stderr
    patient = run_proximo(*words, "--on-env-failure", "restart", "--on-non-finite", "skip", folder=tmp_path)
    assert patient.returncode == 0, patient.stderr
    assert "1,024 steps in" in patient.stdout
    assert "the simulator broke" in patient.stderr  # a warning says what was made again


def test_interrupting_saves_what_there_is(tmp_path):
    command = [PROXIMO, "train", "CartPole-v1", "--steps", "100000000", "--seed", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_rows(tmp_path / "runs", process)
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, complaints
    assert "interrupted: the model is saved" in printed
    assert "Traceback" not in complaints
    (run,) = (tmp_path / "runs").iterdir()
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0


def wait_for_rows(runs: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        files = list(runs.glob("*/progress.csv"))
        if files and len(files[0].read_text().splitlines()) > 2:
            return
        time.sleep(0.2)
    raise TimeoutError("the training wrote no metrics")


def test_unknown_environment_is_one_line_with_near_matches(tmp_path):
    result = run_proximo("train", "CartPol-v1", folder=tmp_path)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: unknown environment id 'CartPol-v1'")
    assert "'CartPole-v1'" in line
    assert not (tmp_path / "runs").exists()
    assert "Traceback" in run_proximo("train", "CartPol-v1", "--debug", folder=tmp_path).stderr


def test_state_dependent_noise_can_be_asked_for(tmp_path):
    words = ["--use-sde", "true", "--sde-sample-freq", "4", "--steps", "64", "--eval-episodes", "0", "--preset", "none"]
    assert main(["train", "Pendulum-v1", "--algo", "a2c", *words, "--runs-dir", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["use_sde"], config["sde_sample_freq"]) == (True, 4)
    model = A2C.load(run / "model.zip")
    assert (model.use_sde, model.sde_sample_freq) == (True, 4)


def test_an_intrinsic_reward_can_be_asked_for_and_repeated(tmp_path):
    words = ["--steps", "64", "--eval-episodes", "0", "--runs-dir", str(tmp_path)]
    reward = ["--intrinsic-reward", "rnd", "--intrinsic-reward-kwargs", "beta = 0.5, latent_dim = 8, kappa = 0.1"]
    assert main(["train", "CartPole-v1", "--algo", "a2c", "--preset", "none", *words, *reward]) == 0
    (run,) = tmp_path.iterdir()
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["intrinsic_reward"] == "rnd"
    assert config["intrinsic_reward_kwargs"] == {"beta": 0.5, "latent_dim": 8, "kappa": 0.1}
    assert "rollout/intrinsic_reward_mean" in (run / "progress.csv").read_text().splitlines()[0]
    model = A2C.load(run / "model.zip")
    assert repr(model.intrinsic_reward) == repr(RND(beta=0.5, latent_dim=8, kappa=0.1))
    assert model.intrinsic_reward.global_step == 13
    for further, expected in (
        ([], repr(model.intrinsic_reward)),
        (["--intrinsic-reward", "icm"], repr(ICM())),
        (["--intrinsic-reward-kwargs", "beta = 2"], repr(RND(beta=2))),
        (["--intrinsic-reward", "none"], "None"),
    ):
        repeated = train.run_config(train.parse_arguments(["--preset", str(run), *further])).preset
        assert repr(repeated.model_arguments().get("intrinsic_reward")) == expected


def test_an_augmentation_can_be_asked_for(tmp_path):
    words = [
        "--steps",
        "64",
        "--eval-episodes",
        "0",
        "--runs-dir",
        str(tmp_path),
        "--preset",
        "none",
        "--n-steps",
        "64",
    ]
    noise = ["--augmentation", "gaussian-noise", "--augmentation-kwargs", "sigma = 0.25", "--aug-coef", "0.5"]
    assert main(["train", "CartPole-v1", *words, *noise]) == 0
    (run,) = tmp_path.iterdir()
    model = PPO.load(run / "model.zip")
    assert (model.augmentation.sigma, model.aug_coef) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train", "CartPole-v1", "--intrinsic-reward", "rnds"],
            "there is no intrinsic_reward 'rnds'; did you mean 'rnd'",
        ),
        (["train", "CartPole-v1", "--intrinsic-reward", "fabric"], "has no name; write it in Python"),
        (["train", "CartPole-v1", "--intrinsic-reward-kwargs", "beta = 1"], "no intrinsic_reward is named"),
        (
            ["train", "CartPole-v1", "--intrinsic-reward", "rnd", "--intrinsic-reward-kwargs", "bta = 1"],
            "RND has no argument 'bta'; did you mean 'beta'",
        ),
        (
            ["train", "CartPole-v1", "--intrinsic-reward", "rnd", "--intrinsic-reward-kwargs", "kappa = 2"],
            "kappa is 2; expected 0 <= kappa < 1",
        ),
        (
            ["train", "CartPole-v1", "--intrinsic-reward", "rnd", "--intrinsic-reward-kwargs", 'kappa = "x"'],
            "kappa is 'x'; expected 0 <= kappa < 1",
        ),
        (["train", "CartPole-v1", "--augmentation", "random_crop"], "RandomCrop changes images of 3 dimensions"),
        (["train", "CartPole-v1", "--aug-coef", "0.3"], "there is no augmentation whose terms it could weigh"),
        (
            ["train", "CartPole-v1", "--algo", "trpo", "--augmentation", "identity"],
            "TRPO has no argument 'augmentation'",
        ),
        (["train", "CartPole-v1", "--use-sde", "true"], "use_sde"),
        (["train", "CartPole-v1", "--gamma", "3"], "gamma is 3.0; expected a number from 0 to 1"),
        (["train", "CartPole-v1", "--policy-kwargs", "net_arc = [3]"], "net_arc"),
        (
            ["train", "CartPole-v1", "--policy-kwargs", "observation_space = 1"],
            "MlpPolicy has no argument 'observation_space'",
        ),
        (["train", "CartPole-v1", "--env-kwargs", "gravity = 3"], "the environment CartPole-v1 cannot be made"),
        (["train", "no_such_package:Maze-v0"], "'no_such_package', and there is no module of that name"),
        (["train", "no_such_package.maze:Maze-v0"], "PYTHONPATH=. for the working directory"),
        (["train", "CartPole-v1", "--on-env-failure", "restart", "--workers", "0"], "leave --workers 0 out"),
        (
            ["train", "CartPole-v1", "--step-timeout", "5", "--workers", "0"],
            "--step-timeout: for environments in worker",
        ),
        (["train", "CartPole-v1", "--workers", "-1"], "--workers is -1; expected auto, cores, or a number"),
        (["train", "CartPole-v1", "--device", "gpu"], "expected auto, cpu, cuda"),
        (["train", "CartPole-v1", "--algo", "maskable_ppo"], "have no method action_masks()"),
        (["train", "CartPole-v1", "--algo", "trpo", "--target-kl", "-1"], "target_kl is -1.0; expected a positive"),
        (["train", "CartPole-v1", "--algo", "trpo", "--policy", "MlpLstmPolicy"], "a policy with memory"),
        (["evaluate", "nowhere"], "nowhere"),
        (["plot", "nowhere"], "nowhere"),
        (["plot"], "name at least one run folder"),
        (["tarin", "CartPole-v1"], "did you mean 'train'?"),
    ],
)
def test_errors_are_one_line_and_exit_code_two(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "runs").write_text("a file")
    words = ["--steps", "64", "--runs-dir", str(tmp_path / "runs")]
    assert main(["train", "CartPole-v1", *words]) == 2
    assert str(tmp_path / "runs") in capsys.readouterr().err


def test_help_is_quick_to_import_and_names_all_commands():
    code = "import sys; from proximo.cli.main import main; main(['--help']); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "False"
    assert all(f"  {name}" in result.stdout for name in COMMANDS)
    assert "proximo train CartPole-v1" in result.stdout


@pytest.mark.parametrize(
    ("name", "module"), [("train", train), ("evaluate", evaluate), ("watch", watch), ("plot", plot), ("bench", bench)]
)
def test_help_has_the_examples(name, module, capsys):
    try:
        code = main([name, "--help"])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 0
    printed = capsys.readouterr().out
    assert "Examples:" in printed
    for example in module.EXAMPLES:
        assert example.startswith(f"proximo {name}")
        assert example in printed


@pytest.mark.parametrize("example", [*train.EXAMPLES, *evaluate.EXAMPLES, *watch.EXAMPLES, *plot.EXAMPLES])
def test_examples_parse(example):
    _, command, *words = shell_words(example)
    if command == "train":
        arguments = train.parse_arguments(words)
        if arguments.resume is None:
            train.run_config(arguments)
        return
    module = {"evaluate": evaluate, "watch": watch, "plot": plot}[command]
    kind = {"evaluate": evaluate.Evaluate, "watch": watch.Watch, "plot": plot.Plot}[command]
    from proximo.cli.command import parse

    parse(kind, command, module.SUMMARY, module.EXAMPLES, words)


def shell_words(line: str) -> list[str]:
    import shlex

    return shlex.split(line)


def test_bench_says_where_it_lives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    with pytest.raises(FileNotFoundError, match="make bench"):
        bench.source_tree()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "run.py").touch()
    assert bench.source_tree() == tmp_path


def test_version(capsys):
    from proximo import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"proximo {__version__}\n"
