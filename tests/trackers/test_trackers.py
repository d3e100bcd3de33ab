"""Trainings in trackers: what they hold is what progress.csv holds, once, also after a resume from long ago."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from proximo import PPO
from proximo.cli import during, session
from proximo.cli.main import main
from proximo.training.callback_base import BaseCallback
from proximo.training.loggers import Figure, HParam, Image, Logger, Video, configure, configure_logger
from proximo.training.run_folder import GROUP_FILE
from proximo.training.trackers import TRACKERS, make_tracker
from proximo.training.trackers.base import RunRecord, TrackerError
from proximo.training.trackers.mlflow_store import MlflowRun

from .conftest import set_up
from .reading import items, progress, same, wandb_history, wandb_records

SHORT = ["CartPole-v1", "--preset", "none", "--n-steps", "64", "--envs", "4", "--seed", "3", "--eval-episodes", "2"]


def trained(folder: Path, *words: str, code: int = 0) -> Path:
    assert main(["train", *SHORT, "--steps", "768", "--runs-dir", str(folder), *words]) == code
    return newest_run(folder)


def newest_run(folder: Path) -> Path:
    return max(file.parent for file in folder.glob("*/config.toml"))


def identity(run: Path, name: str) -> dict[str, object]:
    return json.loads((run / f"{name}.json").read_text())


# ------------------------------------------------------------------------------ one training in all trackers, resumed


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory):
    """A run of 768 steps that went on to 1024 from its checkpoint at 256: the steps 512 and 768 came twice."""
    folder = tmp_path_factory.mktemp("tracked")
    with pytest.MonkeyPatch.context() as patch:
        set_up(folder, patch)
        patch.setattr(during, "FILM_SECONDS", 0.2)
        patch.setattr(session, "FILM_SECONDS", 0.2)
        flags = [word for name in (*TRACKERS, "tensorboard") for word in ("--track", name)]
        every = ["--checkpoint-every", "256", "--record-every", "500", "--video", "--keep-checkpoints", "9"]
        run = trained(folder / "runs", *flags, *every)
        before = {name: identity(run, name) for name in TRACKERS}
        checkpoint = next(path for path in (run / "checkpoints").iterdir() if "_256" in path.name)
        assert main(["train", "--resume", str(checkpoint), "--steps", "1024"]) == 0
        yield run, before


def test_the_same_run_goes_on(resumed):
    run, before = resumed
    for name in TRACKERS:
        assert before[name]["step"] == 768
        assert identity(run, name) == {**before[name], "step": 1024}
    assert sorted(progress(run)) == [256, 512, 768, 1024]


def test_wandb(resumed):
    run, before = resumed
    runs = [record for kind, record in wandb_records(run) if kind == "run"]
    assert {record.run_id for record in runs} == {before["wandb"]["id"]}
    history = wandb_history(run)
    metrics = [row for row in history if "train/loss" in row]
    assert [row["_step"] for row in metrics] == [256, 512, 768, 1024]
    same({row["_step"]: row for row in metrics}, progress(run))
    films = {row["_step"]: row["film/path"] for row in history if "film/path" in row}
    assert sorted(films) == [512, 1024]
    assert len(list((run / "wandb").glob(f"offline-run-*/files/{films[512]}"))) == 1
    config = items(entry for kind, record in wandb_records(run) if kind == "config" for entry in record.update)
    assert (config["env"], config["n_timesteps"], config["seed"]) == ("CartPole-v1", 1024, 3)
    kinds = [record.type for kind, record in wandb_records(run) if kind == "artifact"]
    assert kinds.count("model") == 2, "the model of each session"
    assert [record.exit_code for kind, record in wandb_records(run) if kind == "exit"] == [0, 0]


def test_mlflow(resumed):
    import mlflow

    run, before = resumed
    client = mlflow.MlflowClient((run.parent.parent / "mlruns").as_uri())
    stored = client.get_run(before["mlflow"]["id"])
    (only,) = client.search_runs([stored.info.experiment_id])
    assert only.info.run_id == before["mlflow"]["id"]
    assert stored.info.status == "FINISHED"
    assert stored.info.run_name == run.name
    tracked: dict[int, dict[str, float]] = {}
    for key in stored.data.metrics:
        steps = [metric.step for metric in client.get_metric_history(only.info.run_id, key)]
        if not key.startswith("evaluation/"):
            assert len(steps) == len(set(steps)), key
        for metric in client.get_metric_history(only.info.run_id, key):
            tracked.setdefault(metric.step, {})[key] = metric.value
    same(tracked, progress(run))
    assert stored.data.params["env"] == "CartPole-v1"
    assert stored.data.params["n_timesteps"] == "768"
    changed = {key: text for key, text in stored.data.tags.items() if key.startswith("changed.")}
    assert changed == {"changed.n_timesteps": "1024"}
    assert "film/step_512.gif" in [file.path for file in client.list_artifacts(only.info.run_id, "film")]
    assert [file.path for file in client.list_artifacts(only.info.run_id, "model")] == ["model/model.zip"]
    result = json.loads((run / "result.json").read_text())["evaluation"]["episode_rewards"]
    assert stored.data.metrics["evaluation/mean"] == np.mean(result)


def test_trackio(resumed):
    from trackio.sqlite_storage import SQLiteStorage

    run, before = resumed
    kept = before["trackio"]
    (record,) = [each for each in SQLiteStorage.get_run_records("proximo-tests") if each["name"] == kept["name"]]
    assert record["id"] == kept["id"]
    rows = SQLiteStorage.get_logs("proximo-tests", kept["name"], run_id=kept["id"])
    metrics = [row for row in rows if "train/loss" in row]
    assert [row["step"] for row in metrics] == [256, 512, 768, 1024]
    same({row["step"]: row for row in metrics}, progress(run))
    assert any(row["step"] == 512 for row in rows if "film" in row)
    config = SQLiteStorage.get_run_config("proximo-tests", kept["name"], run_id=kept["id"])
    assert (config["env"], config["n_timesteps"]) == ("CartPole-v1", 1024)


def test_tensorboard(resumed):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run, _ = resumed
    events = EventAccumulator(str(run))
    events.Reload()
    tracked: dict[int, dict[str, float]] = {}
    for key in events.Tags()["scalars"]:
        for event in events.Scalars(key):
            tracked.setdefault(event.step, {})[key] = event.value
    for step, row in progress(run).items():
        assert tracked[step]["train/loss"] == np.float32(row["train/loss"])
    assert [event.step for event in events.Scalars("train/loss")] == [256, 512, 768, 1024], "purged, not doubled"
    assert events.Images("film")[0].encoded_image_string.startswith(b"GIF")
    assert "video" in events.Tags()["images"]


# ------------------------------------------------------------------------------------------------------------- endings


def mlflow_run(run: Path):
    import mlflow

    return mlflow.MlflowClient().get_run(identity(run, "mlflow")["id"])


def at_step(step: int, happens, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen when that step is tracked."""
    plain = MlflowRun._write_values

    def write(self, values, now):
        plain(self, values, now)
        if now == step:
            happens()

    monkeypatch.setattr(MlflowRun, "_write_values", write)


def test_sigterm_ends_the_run_and_a_resume_goes_on_in_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        at_step(512, lambda: os.kill(os.getpid(), signal.SIGTERM), patch)
        run = trained(tmp_path / "runs", "--track", "mlflow", "--checkpoint-every", "256", code=128 + signal.SIGTERM)
    killed = mlflow_run(run)
    assert killed.info.status == "KILLED"
    assert killed.info.end_time is not None
    assert main(["train", "--resume", str(run)]) == 0
    assert mlflow_run(run).info.status == "FINISHED"
    assert mlflow_run(run).info.run_id == killed.info.run_id
    assert sorted(progress(run)) == [256, 512, 768]


def test_an_error_ends_the_run_as_failed(tmp_path, monkeypatch):
    def fail(*_, **__) -> None:
        raise ValueError("something broke")

    monkeypatch.setattr(PPO, "train", fail)
    run = trained(tmp_path / "runs", "--track", "mlflow", code=2)
    assert mlflow_run(run).info.status == "FAILED"


def test_an_agent_of_rllte_ends_its_run(tmp_path, monkeypatch):
    from proximo.rllte.agent import PPO as RlltePPO
    from proximo.rllte.env.testing import make_discrete_env

    monkeypatch.chdir(tmp_path)

    class Failing(BaseCallback):
        def _on_rollout_end(self) -> None:
            if self.num_timesteps > 32:
                raise ValueError("something broke")

    for callback, status in ((None, "FINISHED"), (Failing(), "FAILED")):
        env = make_discrete_env(num_envs=2, device="cpu")
        agent = RlltePPO(env, num_steps=16, batch_size=32, hidden_dim=8)
        with nullcontext() if callback is None else pytest.raises(ValueError, match="something broke"):
            agent.train(num_train_steps=64, log_formats=["mlflow"], callback=callback)
        assert mlflow_run(agent.work_dir).info.status == status


def test_a_program_that_never_closes_its_logger(tmp_path):
    """An error that nobody catches: Python's end closes the run, as failed."""
    code = """
from proximo.training.loggers import configure
logger = configure("run", ["mlflow"])
logger.record("train/loss", 0.5)
logger.dump(64)
raise ValueError("something broke")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    stored = mlflow_run(tmp_path / "run")
    assert (stored.info.status, stored.data.metrics["train/loss"]) == ("FAILED", 0.5)


def wandb_steps(run: Path, wanted: int) -> list[int]:
    """The steps in a run's files, once there are as many as wanted: another process writes them a little later."""
    deadline = time.monotonic() + 120
    while True:
        files = list(run.glob("wandb/offline-run-*/*.wandb"))
        steps = [row["_step"] for row in wandb_history(run)] if all(file.stat().st_size for file in files) else []
        if len(steps) >= wanted or time.monotonic() > deadline:
            return steps
        time.sleep(0.1)


def test_what_kill_takes_from_wandb_comes_again(tmp_path):
    """All steps but the last are in wandb's file soon; the record says so, and a resumed run writes the last."""
    code = """
import sys
from proximo.training.trackers import make_tracker
tracker = make_tracker("wandb", "run")
for step in range(0, 1280, 64):
    tracker.write({"train/loss": 0.5 * step}, {"train/loss": ()}, step)
sys.stdout.write("logged\\n")
sys.stdout.flush()
sys.stdin.read()
"""
    (tmp_path / "run").mkdir()
    # a child would share this process's wandb service, which holds a killed child's run for a while
    alone = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, cwd=tmp_path, env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"logged\n"
        kept = wandb_steps(tmp_path / "run", 19)
        process.kill()
    assert kept == list(range(0, 1216, 64))
    assert identity(tmp_path / "run", "wandb")["step"] == kept[-1]
    again = make_tracker("wandb", tmp_path / "run", resume=True)
    assert again.run.settings.x_transaction_log_flush_interval == 1.0, "wandb's own is 15 seconds"
    for step in kept[-1], kept[-1] + 64:
        again.write({"train/loss": 0.5 * step}, {"train/loss": ()}, step)
    again.finish("finished")
    assert wandb_steps(tmp_path / "run", 20) == [*kept, kept[-1] + 64]
    assert identity(tmp_path / "run", "wandb")["step"] == kept[-1] + 64


def test_a_store_that_fails_does_not_end_the_training(tmp_path, monkeypatch):
    from mlflow.exceptions import MlflowException

    def refuse(*_, **__) -> None:
        raise MlflowException("the server is gone")

    logger = configure(tmp_path / "run", ["mlflow", "csv"])
    monkeypatch.setattr(logger.trackers[0].client, "log_batch", refuse)
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64)
    model.set_logger(logger)
    with pytest.warns(UserWarning, match="mlflow did not take metrics: the server is gone; the training goes on"):
        model.learn(128)
    logger.close()
    assert len(progress(tmp_path / "run")) == 2


def test_no_error_of_a_tracker_ends_the_training(tmp_path, monkeypatch):
    """Such as a store of artifacts whose package is missing, which only the model at the end finds out."""

    def refuse(*_, **__) -> None:
        raise ModuleNotFoundError("No module named 'boto3'")

    logger = configure(tmp_path / "run", ["mlflow"])
    (tracker,) = logger.trackers
    for name in ("log_artifact", "set_terminated"):
        monkeypatch.setattr(tracker.client, name, refuse)
    with pytest.warns(
        UserWarning, match=r"mlflow did not take the model model\.zip: No module named 'boto3'; the train"
    ):
        tracker.write_model(tmp_path / "model.zip")
    logger.record("image", Image(np.zeros((2, 3, 8, 6), np.uint8), "CHW"))  # four axes, three names
    with pytest.warns(UserWarning, match="mlflow did not take image: .*; the training goes on"):
        logger.dump(64)
    with pytest.warns(UserWarning, match="mlflow did not take the end of the run"):
        logger.close()


# ------------------------------------------------------------------------------------------------------------- library


def test_values_of_every_kind(tmp_path):
    logger = configure(tmp_path / "run", ["mlflow"])
    logger.record("a (%)", np.float32(0.5))
    logger.record("tensor", torch.tensor([2.0]))
    logger.record("solved", True)
    logger.record("note", "all is well")
    logger.record("hidden", 1.0, exclude="mlflow")
    logger.record("figure", Figure(plt.figure(), close=True))
    logger.record("image", Image(np.zeros((3, 8, 6), np.uint8), "CHW"))
    logger.record("video", Video(torch.zeros(2, 3, 3, 8, 6, dtype=torch.uint8), fps=10))
    logger.record("settings", HParam({"size": 3}, {"a": 0.0}))
    logger.record("weights", np.zeros(5))
    with pytest.warns(UserWarning, match="mlflow gets no 'weights': it is ndarray"):
        logger.dump(64)
    stored = mlflow_run(tmp_path / "run")
    assert stored.data.metrics == {"a _": 0.5, "tensor": 2.0, "solved": 1.0}
    assert stored.data.tags["note"] == "all is well"
    assert stored.data.params == {"size": "3"}
    client = logger.trackers[0].client
    for key, name in (("figure", "step_64.png"), ("image", "step_64.png"), ("video", "step_64.gif")):
        assert [file.path for file in client.list_artifacts(stored.info.run_id, key)] == [f"{key}/{name}"]
    logger.close()
    with pytest.raises(ValueError, match="this mlflow run is closed"):
        logger.trackers[0].write({}, {}, 128)


def test_configure_logger_goes_on_in_the_tracker(tmp_path):
    ids = []
    for reset in (True, False, True):
        logger = configure_logger(0, str(tmp_path), "PPO", reset, trackers=["mlflow"])
        ids.append(logger.trackers[0].run_id)
        logger.close()
    assert ids[0] == ids[1] != ids[2]
    assert sorted(path.name for path in tmp_path.glob("PPO_*")) == ["PPO_1", "PPO_2"]


def test_only_the_first_process_tracks(tmp_path, monkeypatch):
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    assert configure(tmp_path / "run", ["csv", "mlflow"]).trackers == []


def test_seeds_are_a_group(tmp_path):
    group = tmp_path / "CartPole-v1-ppo-seeds-1-2"
    group.mkdir()
    (group / GROUP_FILE).write_text("seeds = [3]\njobs = 1\ncommand = []\n")
    run = trained(group, "--track", "mlflow", "--steps", "256")
    assert mlflow_run(run).data.tags["group"] == group.name


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_said_before_anything_is_made(name, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["train", *SHORT, "--track", name, "--runs-dir", str(tmp_path / "runs")]) == 2
    assert f"pip install 'proximo[{name}]'" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("key", [None, "short"])
def test_wandb_without_a_login_is_said_before_anything_is_made(key, tmp_path):
    """In a process of its own: wandb reads its settings once."""
    variables = {name: value for name, value in os.environ.items() if name != "WANDB_API_KEY"}
    variables |= {"WANDB_MODE": "online"} | ({} if key is None else {"WANDB_API_KEY": key})
    words = ["train", *SHORT, "--steps", "256", "--track", "wandb", "--runs-dir", str(tmp_path / "runs")]
    told = subprocess.run(
        [sys.executable, "-m", "proximo", *words], env=variables, capture_output=True, text=True, timeout=300
    )
    assert told.returncode == 2, told.stderr
    assert "log in with `wandb login`, or set WANDB_MODE=offline" in told.stderr
    assert ("there is no API key on this machine" if key is None else "WANDB_API_KEY invalid") in told.stderr
    assert not (tmp_path / "runs").exists()


def test_a_store_that_cannot_be_used_is_said_before_anything_is_made(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "other").as_uri())
    assert main(["train", *SHORT, "--track", "mlflow", "--runs-dir", str(tmp_path / "runs")]) == 2
    assert "MLflow's store cannot be used" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("name", "variable"), [("wandb", "WANDB_DIR"), ("trackio", "TRACKIO_DIR")])
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_made(name, variable, tmp_path, monkeypatch, capfd):
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file" / "folder"))
    assert main(["train", *SHORT, "--track", name, "--runs-dir", str(tmp_path / "runs")]) == 2
    assert f"{variable} names no folder to keep runs in" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"id": "a"}', '{"id": "../../x", "step": 1}', '{"id": 3, "step": 1}', '{"step": 1}']
)
def test_a_record_of_a_stranger_is_checked(text, tmp_path):
    (tmp_path / "mlflow.json").write_text(text)
    with pytest.raises(TrackerError, match="does not name the run of a tracker"):
        make_tracker("mlflow", tmp_path, resume=True)


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("kind", ["dangling link", "link", "link inside", "pipe", "folder"])
def test_a_record_that_is_no_file_of_its_own_is_refused(kind, resume, tmp_path):
    """A stranger's folder makes and changes no file elsewhere, and blocks nobody."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    record = run / "mlflow.json"
    if kind == "pipe":
        os.mkfifo(record)
    elif kind == "folder":
        record.mkdir()
    else:
        target = run / "config.toml" if kind == "link inside" else elsewhere
        if kind != "dangling link":
            target.write_text("mine")
        record.symlink_to(target)
    with pytest.raises(TrackerError, match=r"mlflow\.json is no file of its own .*; remove it"):
        make_tracker("mlflow", run, resume=resume)
    assert elsewhere.exists() == (kind == "link")
    assert kind != "link" or elsewhere.read_text() == "mine"


def test_a_record_that_would_be_too_long_is_refused_when_a_run_begins(tmp_path):
    record = RunRecord(tmp_path / "trackio.json", resume=False)
    record.identity = {"id": "a" * 200, "name": "b" * 200}
    record.write(10**15)
    assert RunRecord(record.path, resume=True).identity == record.identity
    record.identity["project"] = "c" * 100
    with pytest.raises(TrackerError, match=r"trackio\.json has room for 480 bytes .* not 5\d\d"):
        record.write(-1)
    assert RunRecord(record.path, resume=True).step == 10**15


def test_a_run_that_the_store_does_not_have(tmp_path):
    (tmp_path / "mlflow.json").write_text('{"id": "%s", "step": 1}' % ("a" * 32))
    with pytest.raises(TrackerError, match="set MLFLOW_TRACKING_URI"):
        make_tracker("mlflow", tmp_path, resume=True)


def test_names_of_trackers(tmp_path, capfd):
    with pytest.raises(ValueError, match="'wandbb' is no log format; did you mean 'wandb'"):
        configure(tmp_path, ["wandbb"])
    with pytest.raises(ValueError, match="'csv' is no tracker"):
        configure_logger(trackers=["csv"])
    run = trained(tmp_path / "runs", "--steps", "256")
    config = run / "config.toml"
    config.write_text(config.read_text().replace("track = []", 'track = ["rm -rf"]'))
    assert main(["train", "--resume", str(run)]) == 2
    assert "track of its session" in capfd.readouterr().err


def test_a_logger_without_trackers_closes_as_ever(tmp_path):
    logger = configure(tmp_path, ["csv"])
    assert logger.trackers == []
    logger.close("failed")
    assert isinstance(logger, Logger)
