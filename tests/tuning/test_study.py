"""Studies: who works on what, what ends a trial, what is confirmed. Scores are invented here; nothing is trained."""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import optuna
import pytest

from proximo.cli.tune import session_words
from proximo.errors import ProximoError
from proximo.training.run_folder import RunFolderError, to_toml
from proximo.training.run_lock import living_holder
from proximo.tuning import Space, Study
from proximo.tuning.picture import draw_study
from proximo.tuning.pruning import is_worse
from proximo.tuning.study import Settings, StudyError, rungs_of
from proximo.zoo import load_preset
from proximo.zoo.presets import PresetFile


def new_study(path: Path, **settings) -> Study:
    start = load_preset("ppo", "Pendulum-v1").changed(n_timesteps=9000)
    rungs = settings.pop("rungs", (3000, 9000))
    space = Space.from_table("ppo", start, {"gamma": {"low": 0.9, "high": 0.999}}, 20_000)
    return Study.create(path, Settings(env="Pendulum-v1", algo="ppo", rungs=rungs, **settings), space)


def work(study: Study, score) -> list[str]:
    """Do all that is left; ``score`` gives a trial's score by (number, rung, seed)."""
    done = []
    while (job := study.next_job()) is not None:
        verdict = "goes on"
        while verdict == "goes on":
            seed = job.waiting_seeds()[0]
            done.append(f"{job.name}/{job.rung}/{seed}")
            job.record(seed, score(job.number, job.rung, seed), job.rungs[job.rung])
            verdict = study.decide(job)
        job.release()
    return done


def test_rungs():
    assert rungs_of(100, 1, 3) == (100,)
    assert rungs_of(100, 3, 3) == (11, 33, 100)
    with pytest.raises(StudyError, match="100 steps are too few for 9 rungs"):
        rungs_of(100, 9, 3)


def test_halving_lets_the_best_go_on_and_fresh_seeds_decide(tmp_path):
    study = new_study(tmp_path / "study", trials=9, seeds=(1, 2), pruner="none", fresh_seeds=(7, 8, 9))
    # the later, the better; on fresh seeds trial 7 is the best
    fresh = {7: 50.0}
    done = work(study, lambda number, rung, seed: fresh.get(number, number) if seed > 6 else number + rung)
    assert len(done) == len(set(done))
    assert study.is_over()
    assert study.counts() == {"complete": 9, "pruned": 0, "running": 0, "fail": 0}  # each was the best so far
    assert [trial.number for trial in study.best_trials()[:3]] == [8, 7, 6]
    assert [job.number for job in study.confirmations()] == [8, 7, 6, 0]
    assert study.best_confirmed().number == 7
    assert study.best_preset() == tomllib.loads((study.path / "trials" / "0007" / "preset.toml").read_text())
    preset = PresetFile.read(study.path / "trials" / "0007" / "preset.toml")
    assert (preset.algo, preset.env) == ("ppo", "Pendulum-v1")
    assert 0.9 <= preset.preset("ppo", "Pendulum-v1").arguments["gamma"] <= 0.999


@pytest.mark.parametrize("pruner", ["median", "wilcoxon", "none"])
@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_returns_that_are_no_numbers_are_the_worst(score, pruner, tmp_path):
    """Of environments whose rewards are not finite while a policy is evaluated."""
    study = new_study(tmp_path / "study", trials=6, seeds=(1, 2), pruner=pruner, fresh_seeds=(7, 8))
    wrong = {(0, 1), (1, 1), (1, 2), (5, 8)}  # trial and seed
    work(study, lambda number, rung, seed: score if (number, seed) in wrong else float(number))
    assert study.is_over()
    assert study.best_trials()[0].number == 5
    assert study.best_confirmed().number == 4
    draw_study(study, tmp_path / "study.png")
    assert Study.open(study.path).best_confirmed().number == 4


def test_the_first_trial_is_the_start_as_it_is(tmp_path):
    study = new_study(tmp_path / "study", trials=2, seeds=(1,))
    job = study.next_job()
    assert PresetFile.read(job.preset_file).preset("ppo", "Pendulum-v1").as_row() == study.space.start.as_row()
    assert study.study.trials[0].params["gamma"] == 0.9
    job.release()


def test_a_start_that_cannot_be_told_to_optuna_leaves_no_study(tmp_path, monkeypatch):
    def fails(space):
        raise ValueError("nothing like it")

    monkeypatch.setattr(Space, "start_parameters", fails)
    with pytest.raises(ValueError, match="nothing like it"):
        new_study(tmp_path / "study")
    assert not Study.is_one(tmp_path / "study")


def test_a_study_that_was_killed_before_its_start_was_enqueued(tmp_path):
    path = new_study(tmp_path / "study", trials=2, seeds=(1,)).path
    (path / "journal.log").unlink()
    for _ in range(2):
        study = Study.open(path)
    assert [trial.user_attrs for trial in study.study.trials] == [{"start": True}]


def test_a_start_whose_process_was_killed_while_it_was_drawn(tmp_path):
    study = new_study(tmp_path / "study", trials=3, seeds=(1,), rungs=(9000,), fresh_seeds=(7,))
    study.study.ask()
    work(study, lambda number, rung, seed: 9.0 if number == 0 else number)
    assert study.is_over()
    assert study.counts() == {"complete": 2, "pruned": 0, "running": 0, "fail": 1}
    assert [job.number for job in study.confirmations()] == [2, 1, 0]
    assert study.best_confirmed().number == 0
    assert study.best_preset() == {"env": "Pendulum-v1", "algo": "ppo", **study.space.start.as_row()}


def test_worse_trials_are_ended_at_their_rung(tmp_path):
    study = new_study(tmp_path / "study", trials=6, seeds=(1, 2), pruner="none")
    done = work(study, lambda number, rung, seed: -number)
    assert study.counts() == {"complete": 1, "pruned": 5, "running": 0, "fail": 0}
    assert [name for name in done if "/1/" in name] == ["0/1/1", "0/1/2"]
    assert study.study.trials[3].intermediate_values == {3000: -3.0}


def test_the_median_ends_a_trial_between_its_seeds(tmp_path):
    study = new_study(tmp_path / "study", trials=6, seeds=(1, 2, 3), rungs=(9000,))
    done = work(study, lambda number, rung, seed: -100.0 if number == 5 else number)
    assert [name for name in done if name.startswith("5/")] == ["5/0/1"]  # five others had a first seed, all better
    assert study.state_of(5) == "pruned"
    assert study.study.trials[5].intermediate_values == {9000: -100.0}
    assert study.counts()["complete"] == 5


def test_wilcoxon_needs_four_pairs_to_be_sure():
    seeds = (1, 2, 3)
    best = {0: {1: 1.0, 2: 2.0, 3: 3.0}, 1: {1: 11.0, 2: 12.0, 3: 13.0}}
    worse = {0: {1: 0.0, 2: 1.5, 3: 2.9}}
    assert not is_worse("wilcoxon", worse, [best], 0, 2, seeds)
    assert is_worse("wilcoxon", {**worse, 1: {1: 10.0}}, [best], 1, 2, seeds)
    assert not is_worse("wilcoxon", {**worse, 1: {1: 11.5}}, [best], 1, 2, seeds)
    assert not is_worse("none", {**worse, 1: {1: 10.0}}, [best], 1, 2, seeds)
    with pytest.raises(StudyError, match="never sure; it needs 4"):
        Settings(env="x", algo="ppo", rungs=(1,), seeds=(1, 2, 3), pruner="wilcoxon")


def test_a_trial_that_was_left_is_taken_up_with_its_scores(tmp_path):
    study = new_study(tmp_path / "study", trials=2, seeds=(1, 2))
    job = study.next_job()
    job.record(1, 5.0, 3000)
    assert Study.open(study.path).next_job().number == 1  # trial 0 is in another's hands
    job.release()
    again = Study.open(study.path).next_job()
    assert (again.number, again.scores, again.waiting_seeds()) == (0, {0: {1: 5.0}}, [2])
    assert living_holder(again.folder) is not None


def test_trials_that_fail_and_trials_that_diverge(tmp_path):
    study = new_study(tmp_path / "study", trials=3, seeds=(1,), rungs=(9000,))
    for diverged in (False, True):
        job = study.next_job()
        study.fail(job, "it broke", diverged)
        job.release()
    assert study.counts() == {"complete": 0, "pruned": 1, "running": 0, "fail": 1}
    assert study.study.get_trials()[0].user_attrs["error"] == "it broke"


WORKER = textwrap.dedent(
    """
    import sys, time
    from proximo.tuning import Study
    study = Study.open(sys.argv[1])
    while (job := study.next_job()) is not None:
        verdict = "goes on"
        while verdict == "goes on":
            seed = job.waiting_seeds()[0]
            print(f"{job.name}/{job.rung}/{seed}", flush=True)
            if sys.argv[2] == "hangs":
                time.sleep(600)
            time.sleep(0.05)
            job.record(seed, float(job.number), job.rungs[job.rung])
            verdict = study.decide(job)
        job.release()
    """
)


def worker(study: Study, kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(study.path), kind], stdout=subprocess.PIPE, text=True, env=os.environ
    )


def test_processes_share_a_study_and_take_over_from_one_that_was_killed(tmp_path):
    study = new_study(tmp_path / "study", trials=6, seeds=(1, 2), pruner="none")
    hanging = worker(study, "hangs")
    assert hanging.stdout.readline() == "0/0/1\n"
    workers = [worker(study, "works") for _ in range(2)]
    hanging.send_signal(signal.SIGKILL)
    hanging.wait()
    done = [line for process in workers for line in process.communicate(timeout=120)[0].split()]
    assert [process.returncode for process in workers] == [0, 0]
    done += work(study, lambda number, rung, seed: float(number))  # what the dead one held, if both came too early
    assert len(done) == len(set(done)), done
    trials = study.study.get_trials(deepcopy=False)
    assert [trial.number for trial in trials] == list(range(6))
    assert all(trial.state.is_finished() for trial in trials)
    assert {name.split("/")[0] for name in done} == {str(number) for number in range(6)}
    assert study.is_over()


def test_more_trials_but_not_fewer(tmp_path):
    study = new_study(tmp_path / "study", trials=1, seeds=(1,), rungs=(9000,))
    work(study, lambda *_: 0.0)
    assert study.is_over()
    study.extend(2)
    assert Study.open(study.path).settings.trials == 2
    assert not study.is_over()
    with pytest.raises(StudyError, match="has 2 trials, 1 are fewer"):
        study.extend(1)


def test_folders_that_are_no_study(tmp_path):
    with pytest.raises(StudyError, match="is no study"):
        Study.open(tmp_path)
    (tmp_path / "study.toml").write_text("env = 'x'\n")
    with pytest.raises(StudyError, match="does not describe a study"):
        Study.open(tmp_path)
    assert issubclass(StudyError, ProximoError)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trials = 'x'", "trials is 'x'; expected a whole number of at least 1"),
        ("trials = true", "trials is True; expected a whole number"),
        ("reduction = 1", "reduction is 1; expected a whole number of at least 2"),
        ("rungs = []", "rungs is .*; expected a list of rising whole numbers, such as 1000, 3000"),
        ("rungs = [3, 2]", "rungs is .*; expected a list of rising"),
        ("rungs = 7", "rungs is 7; expected a list"),
        ("seeds = ['x']", "seeds is .*; expected a list of whole numbers"),
        ("seeds = []", "seeds is .*; expected a list of whole numbers, such as 1, 2, 3"),
        ("fresh_seeds = [-1]", "fresh_seeds is .*; expected a list of whole numbers"),
        ("pruner = 'medan'", "pruner is 'medan'; did you mean 'median'"),
        ("algo = 'pp'", "algo is 'pp'; did you mean 'ppo'"),
        ("algo = ['ppo']", "algo is .*ppo"),
        ("env = 3", "env is 3; expected the id of an environment"),
        ("env = '--resume'", "env is '--resume'; expected the id"),
        (r'env = "CartPole-v1\nn_envs = 9"', "env is .*; expected the id"),
        ("workers = -1", "workers is -1; expected auto, cores, or a number of at least 0"),
        ("device = '--resume'", "device is '--resume'; expected a device such as cpu"),
        ("train = ['--resume', 'elsewhere']", "it has 'train'"),
        ("start = 3", "start is 3; expected a table"),
        ("space = 3", "space is 3; expected a table"),
        ("start.batch_size = 0\nspace.n_steps = {low = 16, high = 64, powers_of = 2}", "batch_size 0, which is not"),
        ("start.n_steps = inf\nspace.n_envs = {low = 1, high = 4}", "cannot convert float infinity to integer"),
    ],
)
def test_what_no_study_can_be(line, message, tmp_path):
    path = new_study(tmp_path / "study", trials=2).path
    table = tomllib.loads((path / "study.toml").read_text()) | tomllib.loads(line)
    (path / "study.toml").write_text(to_toml(table))
    with pytest.raises(StudyError, match=rf"study.toml does not describe a study \({message}"):
        Study.open(path)


def test_where_and_how_trainings_run_is_written_down(tmp_path):
    path = new_study(tmp_path / "study", workers=2, device="cpu").path
    assert session_words(Study.open(path).settings) == ["--workers", "2", "--device", "cpu"]


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "[" * 100_000,
        '{"rung": 0}',
        "[1]",
        '[{"rung": 0, "seed": 1, "score": 1.0}]',
        '[{"rung": 2, "seed": 1, "score": 1.0, "steps": 3000}]',
        '[{"rung": -1, "seed": 1, "score": 1.0, "steps": 3000}]',
        '[{"rung": 1e999, "seed": 1, "score": 1.0, "steps": 3000}]',
        '[{"rung": null, "seed": 1, "score": 1.0, "steps": 3000}]',
    ],
)
def test_scores_that_are_damaged(text, tmp_path):
    study = new_study(tmp_path / "study", trials=1, seeds=(1, 2))
    job = study.next_job()
    job.record(1, 5.0, 3000)
    (job.folder / "scores.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"scores.json .*remove it"):
        job.read()
    job.release()


class Calls:
    """A pickle that runs a command when a careless reader loads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize(
    "added",
    ["\n", "{}\n", "[]\n", "x\nx\n", '{"op_code": 99}\n', '{"op_code": []}\n', "[" * 100_000 + "\n", "\xff\n\n",
     '{"op_code": 4, "worker_id": "x"}\n', '{"op_code": 8, "worker_id": "x", "trial_id": [], "user_attr": 3}\n',
     '{"op_code": 5, "worker_id": "x", "trial_id": 0, "param_name": "x", "distribution": 3}\n'],
)  # fmt: skip
def test_a_journal_that_is_damaged_is_named(added, tmp_path):
    path = new_study(tmp_path / "study", trials=2, seeds=(1,)).path
    with (path / "journal.log").open("ab") as stream:
        stream.write(added.encode("latin-1"))
    with pytest.raises(StudyError, match=r"journal.log is no journal of a study, or damaged"):
        Study.open(path)


def test_a_journal_of_a_stranger_runs_nothing(tmp_path):
    """Optuna unpickles snapshots of other storages, and CMA-ES what its trials say; neither is used here."""
    path, marker = new_study(tmp_path / "study", trials=3, seeds=(1,), pruner="none").path, tmp_path / "was_run"
    hostile = pickle.dumps(Calls(marker))
    journal = (path / "journal.log").read_text()
    for name in ("journal.log.snapshot", "snapshot", "journal.log.snapshot.pkl"):
        (path / name).write_bytes(hostile)
    attributes = {"op_code": 3, "worker_id": "x", "study_id": 0, "system_attr": {"snapshot": hostile.hex()}}
    trial = {"op_code": 9, "worker_id": "x", "trial_id": 0, "system_attr": {"cma:optimizer:0": hostile.hex()}}
    lines = [line for line in journal.splitlines() if line]
    (path / "journal.log").write_text("\n".join([*lines, json.dumps(attributes), json.dumps(trial)]) + "\n")
    study = Study.open(path)
    assert study.study._storage.get_study_system_attrs(study.study._study_id) == {"snapshot": hostile.hex()}
    work(study, lambda number, *_: float(number))
    assert study.is_over()
    (path / "journal.log").write_bytes(hostile)
    with pytest.raises(StudyError):
        Study.open(path)
    assert not marker.exists()


def test_steps_of_metrics_that_end_in_half_a_line(tmp_path):
    job = new_study(tmp_path / "study", trials=1, seeds=(1, 2, 3)).job(0)
    whole = '{"time/total_timesteps": 128}\n{"time/total_timesteps": 256}\n'
    for name, text in (("a", whole + '{"time/total_times'), ("b", whole + "\x00" * 9 + "\n[1]\n"), ("c", '{"tim')):
        (job.folder / name).mkdir(parents=True)
        (job.folder / name / "progress.jsonl").write_text(text)
    assert job.steps_trained() == 256 + 256


def test_optuna_reads_the_journal_by_itself(tmp_path):
    study = new_study(tmp_path / "study", trials=2, seeds=(1,), rungs=(9000,))
    work(study, lambda number, *_: float(number))
    backend = optuna.storages.journal.JournalFileBackend(str(study.path / "journal.log"))
    found = optuna.load_study(study_name=None, storage=optuna.storages.JournalStorage(backend))
    assert [trial.value for trial in found.trials] == [0.0, 1.0]
    assert found.best_trial.user_attrs["preset"].startswith('env = "Pendulum-v1"')
