"""Several trainings at once in one database of MLflow: each seed a run of its own, all in one group."""

from __future__ import annotations

import pytest

from proximo.cli.main import main

from .reading import progress, same

pytestmark = pytest.mark.slow


def test_seeds_in_a_database(tmp_path, monkeypatch):
    import mlflow

    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.chdir(tmp_path)
    words = ["--preset", "none", "--n-steps", "64", "--envs", "4", "--steps", "768", "--eval-episodes", "2"]
    assert main(["train", "CartPole-v1", *words, "--seeds", "1-3", "--jobs", "3", "--track", "mlflow"]) == 0
    (group,) = (tmp_path / "runs").iterdir()
    client = mlflow.MlflowClient(address)
    stored = client.search_runs([client.get_experiment_by_name("proximo").experiment_id])
    assert sorted(run.data.params["seed"] for run in stored) == ["1", "2", "3"]
    assert {run.data.tags["group"] for run in stored} == {group.name}
    assert {run.info.status for run in stored} == {"FINISHED"}
    for run in stored:
        tracked: dict[int, dict[str, float]] = {}
        for key in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, key):
                tracked.setdefault(metric.step, {})[key] = metric.value
        same(tracked, progress(group / run.info.run_name))
