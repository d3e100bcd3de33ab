"""No tracker and no hub leaves this machine, and none writes outside the tests' folders or reads the user's token."""

from __future__ import annotations

import importlib.util
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
NOWHERE = "http://127.0.0.1:9"  # nothing listens there


def set_up(folder: Path, patch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        patch.setenv(name, value)
    patch.setenv("MLFLOW_TRACKING_URI", (folder / "mlruns").as_uri())
    home = folder.parent / f"{folder.name}-home"  # beside it: the folder holds only what the test makes
    home.mkdir(exist_ok=True)
    settings = {"HOME": home, "HF_HOME": home / "hf", "HF_ENDPOINT": NOWHERE}
    for name, place in settings.items():
        patch.setenv(name, str(place))
    for name in ("WANDB_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        patch.delenv(name, raising=False)
    if importlib.util.find_spec("huggingface_hub") is not None:  # which reads its settings when it is imported
        patch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
        patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(home / "hf" / "token"))
        patch.setattr("huggingface_hub.constants.HF_HOME", str(home / "hf"))
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hf" / "hub"))


@pytest.fixture(autouse=True)
def local_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(tmp_path, monkeypatch)
