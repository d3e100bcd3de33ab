"""Procgen finds Qt 5 of the system or of the wheel, each tried in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proximo.envs.adapters.qt import WHEEL_LIBRARIES, _wheel_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="EnvPool takes Qt from outside only on Linux")

# what was loaded is read from the process's memory map
PLAY = """
from pathlib import Path
from proximo.envs import make_env_pool, make_procgen_env

before = make_env_pool("CartPole-v1", 1)  # imports EnvPool, and with it Procgen, before Qt is asked for
assert before.reset().shape == (1, 4)
for env in (make_procgen_env("starpilot", 2), make_env_pool("BigfishEasy-v0", 2)):
    assert env.reset().std() > 10
lines = Path("/proc/self/maps").read_text().splitlines()
libraries = {line.split()[-1] for line in lines if "libQt5Core" in line or "libQt5Gui" in line}
print(*sorted(libraries), sep="\\n")  # Qt itself loads more, to read images
"""


def play(**environment: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("envpool")
    variables = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | environment
    return subprocess.run([sys.executable, "-c", PLAY], env=variables, capture_output=True, text=True)


def loaded(done: subprocess.CompletedProcess[str]) -> dict[str, Path]:
    assert done.returncode == 0, done.stderr
    return {Path(line).name.split(".")[0]: Path(line).parent for line in done.stdout.splitlines()}


def wheel_folder() -> Path:
    folder = _wheel_folder()
    if folder is None:
        pytest.skip("the wheel PyQt5-Qt5 is not installed: pip install 'proximo[procgen]'")
    return folder


@pytest.fixture(scope="module")
def _no_system_qt() -> None:
    code = "import ctypes; ctypes.CDLL('libQt5Gui.so.5')"
    variables = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    if not subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True).returncode:
        pytest.skip("the system's own Qt 5 is installed, and goes first")


@pytest.fixture
def _without_the_wheel(tmp_path, monkeypatch):
    """An empty package of the wheel's name, found before it."""
    (tmp_path / "path" / "PyQt5").mkdir(parents=True)
    (tmp_path / "path" / "PyQt5" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.usefixtures("_no_system_qt")
def test_the_wheel_is_enough():
    folder = wheel_folder()
    assert loaded(play()) == {"libQt5Core": folder, "libQt5Gui": folder}


def test_the_systems_own_goes_first(tmp_path):
    """The system's libraries are those that the loader finds by their name alone, here through its search path."""
    system = tmp_path / "system"
    system.mkdir()
    for name in WHEEL_LIBRARIES:
        shutil.copy(wheel_folder() / name, system / name)
    assert loaded(play(LD_LIBRARY_PATH=str(system))) == {"libQt5Core": system, "libQt5Gui": system}


@pytest.mark.usefixtures("_no_system_qt", "_without_the_wheel")
def test_without_either_both_are_named():
    done = play()
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("proximo.errors.MissingSystemLibraryError: Procgen needs Qt 5")
    assert "libQt5Gui.so.5: cannot open shared object file" in error
    assert "pip install 'proximo[procgen]'" in error
    assert "apt-get install libqt5core5a libqt5gui5" in error


@pytest.mark.usefixtures("_no_system_qt", "_without_the_wheel")
def test_a_damaged_wheel_is_named(tmp_path):
    folder = tmp_path / "path" / "PyQt5" / "Qt5" / "lib"
    folder.mkdir(parents=True)
    for name in WHEEL_LIBRARIES:
        (folder / name).write_bytes(b"no library")
    done = play()
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert "libicudata.so.56 of the wheel PyQt5-Qt5 cannot be loaded" in error
    assert "apt-get install libgl1 libglib2.0-0" in error
