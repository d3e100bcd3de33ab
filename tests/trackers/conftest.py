"""No tracker leaves this machine, and none writes outside the tests' folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

os.environ["TRACKIO_DIR"] = tempfile.mkdtemp(prefix="proximo-trackio-")  # read when trackio is imported
SETTINGS = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_OFFLINE": "1",
    "TRACKIO_PROJECT": "proximo-tests",
}


def set_up(folder: Path, patch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        patch.setenv(name, value)
    patch.setenv("MLFLOW_TRACKING_URI", (folder / "mlruns").as_uri())
    patch.delenv("WANDB_DIR", raising=False)


@pytest.fixture(autouse=True)
def local_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(tmp_path, monkeypatch)
