"""MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from proximo.errors import MissingExtraError
from proximo.training.log_formats import Ending
from proximo.training.trackers.base import TrackedRun, TrackerError, flat, run_title

STATUS: dict[Ending, str] = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_LONGEST_PARAMETER = 6000  # characters, MLflow's limit
_LONGEST_TAG = 5000
_AT_A_TIME = 100  # parameters in a request


class MlflowRun(TrackedRun):
    """A run of MLflow, in the store that ``MLFLOW_TRACKING_URI`` names, else in ``mlflow.db`` of the current folder.

    The experiment is that of ``MLFLOW_EXPERIMENT_NAME``, else proximo. Parameters of a run cannot change: what a
    resumed training has otherwise (more steps, say) becomes a tag ``changed.…``. MLflow keeps every value of a step.
    """

    name: ClassVar[str] = "mlflow"

    @classmethod
    def check(cls) -> None:
        """Opens the store: of several trainings that begin at once, all but one would fail to make its tables."""
        try:
            from mlflow import MlflowClient  # noqa: F401
            from mlflow.exceptions import MlflowException
        except ImportError as error:
            raise MissingExtraError("mlflow-skinny", "mlflow", "tracking with MLflow") from error
        try:
            _experiment_id()
        except (MlflowException, ImportError, OSError) as error:  # ImportError: a database without SQLAlchemy
            raise TrackerError(
                f"MLflow's store cannot be used: {error}; MLFLOW_TRACKING_URI names another one, such as "
                "sqlite:///mlflow.db or http://localhost:5000"
            ) from error

    def _open(self, identity: Mapping[str, str], group: str | None) -> dict[str, str]:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        self.client = MlflowClient()
        if identity:
            try:
                self.client.update_run(identity["id"], status="RUNNING")
            except MlflowException as error:
                raise TrackerError(
                    f"MLflow's store has no run {identity['id']} ({error}); set MLFLOW_TRACKING_URI to the store that "
                    f"has it, or remove {self._record.path} to begin a new run"
                ) from error
            return dict(identity)
        tags = {} if group is None else {"group": group}
        run = self.client.create_run(_experiment_id(), run_name=run_title(self.folder), tags=tags)
        return {"id": run.info.run_id}

    def _write_values(self, values: dict[str, float | str], step: int) -> None:
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        numbers = {key: value for key, value in values.items() if not isinstance(value, str)}
        texts = {key: value for key, value in values.items() if isinstance(value, str)}
        self.client.log_batch(
            self.run_id,
            metrics=[Metric(_allowed(key), value, now, step) for key, value in numbers.items()],
            tags=[RunTag(_allowed(key), text[:_LONGEST_TAG]) for key, text in texts.items()],
        )

    def _write_config(self, config: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        known = self.client.get_run(self.run_id).data.params
        values = {_allowed(key): str(value)[:_LONGEST_PARAMETER] for key, value in flat(config).items()}
        new = [Param(key, value) for key, value in values.items() if key not in known]
        for start in range(0, len(new), _AT_A_TIME):
            self.client.log_batch(self.run_id, params=new[start : start + _AT_A_TIME])
        for key, value in values.items():
            if known.get(key, value) != value:
                self.client.set_tag(self.run_id, f"changed.{key}", value[:_LONGEST_TAG])

    def _write_picture(self, key: str, path: Path, step: int) -> None:
        from shutil import copyfile
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:  # an artifact is named as its file is
            named = Path(folder) / f"step_{step}{path.suffix}"
            copyfile(path, named)
            self.client.log_artifact(self.run_id, str(named), _allowed(key))

    def _write_model(self, path: Path) -> None:
        self.client.log_artifact(self.run_id, str(path), "model")

    def _finish(self, ending: Ending) -> None:
        self.client.set_terminated(self.run_id, STATUS[ending])


def _experiment_id() -> str:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client, name = MlflowClient(), os.environ.get("MLFLOW_EXPERIMENT_NAME", "proximo")
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name)
        except MlflowException:  # another process has just made it
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id


def _allowed(key: str) -> str:
    """A name in the characters that MLflow takes.

    >>> _allowed("rollout/success (%)")
    'rollout/success _'
    """
    return re.sub(r"[^A-Za-z0-9_\-. :/]+", "_", key)
