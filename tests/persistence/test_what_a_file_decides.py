"""Numbers, and names from lists: nothing else of a model or a run comes out of a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import stable_baselines3
import torch

from proximo import PPO
from proximo.cli.algorithms import make_model
from proximo.cli.runs import Run, RunConfig
from proximo.cli.train import parse_arguments, resumed_arguments
from proximo.envs import make_vec_env
from proximo.errors import ModelFileError, ProximoError
from proximo.files.archive import read_archive, write_archive
from proximo.training.run_folder import RunFolderError

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu"}


def rewritten(path: Path, **fields: Any) -> Path:
    manifest, tensors = read_archive(path)
    target = path.with_name("rewritten.zip")
    write_archive(target, {**manifest, "fields": {**manifest["fields"], **fields}}, tensors)
    return target


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    PPO("MlpPolicy", "Pendulum-v1", **SMALL).save(tmp_path / "model.zip")
    return tmp_path / "model.zip"


# --------------------------------------------------------------------------------------------------- where it writes


@pytest.mark.parametrize("library", ["proximo", "stable_baselines3"])
def test_a_file_does_not_say_where_learn_writes(library: str, tmp_path: Path) -> None:
    agent: Any = {"proximo": PPO, "stable_baselines3": stable_baselines3.PPO}[library]
    chosen = tmp_path / "strangers choice"
    agent("MlpPolicy", "Pendulum-v1", tensorboard_log=str(chosen), **SMALL).save(tmp_path / "model.zip")
    with pytest.warns(UserWarning, match=r"saved with tensorboard_log=.*load\(…, tensorboard_log=…\)"):
        model = PPO.load(tmp_path / "model.zip", env=make_vec_env("Pendulum-v1"), device="cpu")
    assert model.tensorboard_log is None
    model.learn(16)
    assert not chosen.exists()
    for given in ({"tensorboard_log": "mine"}, {"custom_objects": {"tensorboard_log": "mine"}}):
        assert PPO.load(tmp_path / "model.zip", device="cpu", **given).tensorboard_log == "mine"


# ------------------------------------------------------------------------------------------------------- attributes


class Noted(PPO):
    """A user's class with an attribute that its files hold."""

    saved_attributes: ClassVar[tuple[str, ...]] = ("note",)
    note: Any = None


def test_attributes_come_from_the_file_only_if_the_class_names_them(tmp_path: Path) -> None:
    model = Noted("MlpPolicy", "Pendulum-v1", **SMALL)
    model.note = [1, 2]
    model.save(tmp_path / "model.zip")
    assert Noted.load(tmp_path / "model.zip", device="cpu").note == [1, 2]
    with pytest.warns(UserWarning, match=r"also holds 'note', which is not set.*PPO\.saved_attributes"):
        plain = PPO.load(tmp_path / "model.zip", device="cpu")
    assert not hasattr(plain, "note")


def test_what_is_included_and_would_not_come_back_is_said(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", **SMALL)
    model.note = 1  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=r"note will be in the file, but load\(\) sets only"):
        model.save(tmp_path / "model.zip", include=["note"])


@pytest.mark.parametrize("name", ["env", "_logger", "runtime", "_callback", "companions", "device"])
def test_attributes_of_the_library_are_not_the_files(name: str, saved: Path) -> None:
    with pytest.warns(UserWarning, match="which is not set"):
        model = PPO.load(rewritten(saved, **{name: "strange"}), device="cpu")
    assert getattr(model, name) != "strange"


def test_methods_are_not_replaced(saved: Path) -> None:
    with pytest.raises(ModelFileError, match="would replace what the class defines"):
        PPO.load(rewritten(saved, predict=1), device="cpu")


def test_options_of_an_optimiser_are_numbers_that_it_has(saved: Path) -> None:
    manifest, tensors = read_archive(saved)
    strange = {"foreach": True, "fused": True, "lr": "high", "unheard_of": 1, "params": [5], "eps": 0.25}
    groups = [{**group, **strange} for group in manifest["optimizer_groups"]]
    write_archive(saved, {**manifest, "optimizer_groups": groups}, tensors)
    before = PPO("MlpPolicy", "Pendulum-v1", **SMALL).policy.optimizer.param_groups[0]
    found = PPO.load(saved, device="cpu").policy.optimizer.param_groups[0]
    assert found["eps"] == 0.25
    assert found.keys() == before.keys()
    assert [found[name] for name in ("foreach", "fused", "lr")] == [before[name] for name in ("foreach", "fused", "lr")]


# ---------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("library", ["proximo", "stable_baselines3"])
def test_the_noise_of_loading_is_for_the_environments_that_are_there(library: str, tmp_path: Path) -> None:
    agent: Any = {"proximo": PPO, "stable_baselines3": stable_baselines3.PPO}[library]
    model = agent("MlpPolicy", "Pendulum-v1", use_sde=True, **SMALL)
    model.n_envs = 2**16
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", device="cpu")
    assert len(loaded.policy.action_dist.exploration_matrices) == 1
    with_env = PPO.load(tmp_path / "model.zip", env=make_vec_env("Pendulum-v1", n_envs=3), device="cpu")
    assert len(with_env.policy.action_dist.exploration_matrices) == 3


POINTS_OUTSIDE = """
import sys, warnings
from proximo import PPO
from proximo.envs import make_vec_env
from proximo.errors import ModelFileError, EnvironmentStateError
model = PPO.load(sys.argv[1], env=make_vec_env("Pendulum-v1"), device="cpu")
try:
    model.resume()
    print(np.random.random(10))
except (ModelFileError, EnvironmentStateError) as error:
    print("refused", error)
"""


@pytest.mark.parametrize("place", [10**9, -(10**9), 625])
def test_a_random_state_that_points_outside_its_memory_is_refused(place: int, tmp_path: Path) -> None:
    """NumPy reads memory at the place that the state says: this ended the process with a segmentation fault."""
    model = PPO("MlpPolicy", "Pendulum-v1", **SMALL)
    model.learn(16)
    state = model.training_state()
    state["random"]["numpy"]["state"]["pos"] = place
    model.save_checkpoint(tmp_path / "checkpoint.zip", state)
    command = [sys.executable, "-c", POINTS_OUTSIDE, str(tmp_path / "checkpoint.zip")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "points outside its 624 numbers" in done.stdout


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: [],
        lambda state: {**state, "version": [2]},
        lambda state: {**state, "episode_starts": 5},
        lambda state: {**state, "progress": {**state["progress"], "num_timesteps": "many"}},
        lambda state: {**state, "progress": {**state["progress"], "remaining": 7.0}},
        lambda state: {**state, "progress": {**state["progress"], "iteration": 2**70}},
        lambda state: {**state, "random": {**state["random"], "python": (3, (0,) * 625, None, 1)}},
        lambda state: {**state, "random": {**state["random"], "torch": torch.zeros(3)}},
        lambda state: {**state, "environments": 10**300},
        lambda state: {**state, "episodes": 3},
    ],
)
def test_training_states_of_other_kinds_are_refused(spoil: Any, tmp_path: Path) -> None:
    model = PPO("MlpPolicy", make_vec_env("Pendulum-v1", seed=1), **SMALL)
    model.learn(16)
    model.save_checkpoint(tmp_path / "checkpoint.zip", spoil(model.training_state()))
    loaded = PPO.load(tmp_path / "checkpoint.zip", env=make_vec_env("Pendulum-v1", seed=1), device="cpu")
    with pytest.raises(ProximoError):
        loaded.learn(16, reset_num_timesteps=False)


# ------------------------------------------------------------------------------------------------------ run folders

TABLE: dict[str, Any] = {"env": "CartPole-v1", "algo": "ppo", "seed": 1, "preset": "x", "n_envs": 1, "n_timesteps": 64}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_wrapper": ["SubprocVecEnv"]}, "needs the wrapper SubprocVecEnv"),
        ({"env_wrapper": "make_vec_env"}, "needs the wrapper make_vec_env"),
        ({"env_wrapper": {"AtariWrapper": {"env": 1}}}, "gives AtariWrapper the argument 'env'"),
        ({"env_wrapper": [["AtariWrapper"]]}, "expected a name"),
        ({"env_wrapper": 3}, "expected a name"),
        ({"n_envs": 0}, "n_envs of the preset"),
        ({"n_envs": True}, "n_envs of the preset"),
        ({"n_envs": float("inf")}, "n_envs of the preset .* is inf"),
        ({"n_timesteps": "many"}, "n_timesteps of the preset"),
        ({"frame_stack": 1.5}, "frame_stack of the preset"),
        ({"policy": 5}, "policy of the preset"),
        ({"normalize": [1]}, "normalize of the preset"),
        ({"env_kwargs": 1}, "env_kwargs of the preset"),
        ({"seed": "1"}, "seed a whole number"),
        ({"env": 1}, "are texts"),
        ({"session": 1}, "session a table"),
    ],
)
def test_the_configuration_of_a_run_is_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        RunConfig.from_table({**TABLE, **changes}, "config.toml")


@pytest.mark.parametrize(
    "name", ["tensorboard_log", "device", "learner_class", "rollout_buffer_class", "env", "verbose"]
)
def test_the_configuration_of_a_run_holds_hyperparameters_and_nothing_else(name: str) -> None:
    table = {**TABLE, name: "elsewhere"} if name != "env" else {**TABLE, "monitor_wrapper": False}
    config = RunConfig.from_table(table, "config.toml")
    with pytest.raises(ValueError, match="PPO has no argument"):
        make_model("ppo", config.preset, make_vec_env("CartPole-v1"))


@pytest.mark.parametrize(
    "session",
    [
        {"workers": -1},
        {"workers": "many"},
        {"until": "never"},
        {"eval_episodes": True},
        {"backend": "quantum"},
        {"checkpoint_every": 0},
        {"device": ["cpu"]},
        {"keep_checkpoints": -1},
    ],
)
def test_the_session_of_a_run_is_what_its_flags_could_be(session: dict[str, Any], tmp_path: Path) -> None:
    run = Run.create(tmp_path, RunConfig.from_table({**TABLE, "session": session}, "config.toml"))
    with pytest.raises(RunFolderError, match=next(iter(session)).replace("_", "[-_]")):
        resumed_arguments(parse_arguments(["--resume", str(run.folder.path)]))


def test_numbers_beyond_floats_are_refused(tmp_path: Path, saved: Path) -> None:
    for fields in ({"learning_rate": 2**1024 - 1}, {"ent_coef": 2**1024 - 1}, {"gamma": 2**1024 - 1}):
        with pytest.raises(ModelFileError):
            PPO.load(rewritten(saved, **fields), device="cpu")
