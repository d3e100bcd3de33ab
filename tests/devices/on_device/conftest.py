"""The device, for all tests of this folder."""

from pathlib import Path

import pytest
import sim_device

sim_device.register()


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trainings of the compatibility packages write below the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
