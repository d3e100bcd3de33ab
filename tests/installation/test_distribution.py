"""What a release consists of: the source distribution, the wheel that it builds, and the files beside them.

Run it with ``make dist-test``: it installs the wheel with all that it needs into an empty virtual environment.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONSTRAINTS = ("--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"))


def run(*command: object, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}"
    return done.stdout


def test_one_version_everywhere() -> None:
    """The package, the citation and the newest heading of the changelog."""
    citation = (ROOT / "CITATION.cff").read_text()
    (headed, *_) = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE).group(1) == PROJECT["version"] == headed


def test_images_take_files_that_there_are() -> None:
    """No machine that tests this has a Docker engine: what the build copies and installs is checked by name."""
    recipe = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.*)$", recipe, re.MULTILINE) for name in line.split()[:-1]]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)
    assert set(re.search(r'EXTRAS="(.*)"', recipe).group(1).split(",")) <= set(EXTRAS)
    named = set(re.findall(r"--build-arg (\w+)", recipe))
    assert named <= set(re.findall(r"^ARG (\w+)=", recipe, re.MULTILINE))
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert f"FROM {container['image']}-slim\n" in recipe
    command, target = container["postCreateCommand"].split()
    assert command == "make"
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


@pytest.mark.slow
class TestDistribution:
    @pytest.fixture(scope="class")
    def built(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The source distribution of the committed files, and the wheel built from it."""
        folder = tmp_path_factory.mktemp("distribution")
        run("git", "clone", "--quiet", ROOT, folder / "checkout")
        run(sys.executable, "-m", "venv", folder / "builder")
        run(folder / "builder/bin/python", "-m", "pip", "install", *CONSTRAINTS, "build")
        run(folder / "builder/bin/python", "-m", "build", "--outdir", folder, folder / "checkout")
        return folder

    def test_the_source_distribution_is_complete(self, built: Path) -> None:
        (made,) = built.glob("*.tar.gz")
        with tarfile.open(made) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        tracked = set(run("git", "ls-files", cwd=built / "checkout").split("\n")) - {""}
        needed = {name for name in tracked if name.startswith("src/")}
        assert needed | {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= names

    def test_the_wheel_holds_the_package_alone(self, built: Path) -> None:
        (made,) = built.glob("*.whl")
        with zipfile.ZipFile(made) as archive:
            names = set(archive.namelist())
            (about,) = (name for name in names if name.endswith("/METADATA"))
            metadata = archive.read(about).decode()
        assert {name.partition("/")[0].partition("-")[0] for name in names} == {"proximo"}
        tracked = run("git", "ls-files", "src/proximo", cwd=built / "checkout").split()
        assert {name.removeprefix("src/") for name in tracked} <= names
        assert "proximo/py.typed" in names
        assert f"Version: {PROJECT['version']}" in metadata
        assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)) == set(EXTRAS)

    def test_the_wheel_runs_without_the_repository(self, built: Path, tmp_path: Path) -> None:
        (made,) = built.glob("*.whl")
        python, home = tmp_path / "venv/bin/python", tmp_path / "home"
        home.mkdir()
        run(sys.executable, "-m", "venv", tmp_path / "venv")
        run(python, "-m", "pip", "install", *CONSTRAINTS, made)
        alone = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        command = tmp_path / "venv/bin/proximo"
        assert run(command, "--version", cwd=home, env=alone).strip() == f"proximo {PROJECT['version']}"
        trained = run(command, "train", "CartPole-v1", "--steps", "512", "--seed", "1", cwd=home, env=alone)
        assert "steps in" in trained
        (model,) = home.glob("runs/*/model.zip")
        assert "PPO" in run(command, "inspect", model, cwd=home, env=alone)
        refused = subprocess.run([command, "bench"], cwd=home, env=alone, capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "the benchmarks live in the source tree" in " ".join(refused.stderr.split())
        code = "import pathlib, proximo; print(pathlib.Path(proximo.__file__).with_name('py.typed').exists())"
        assert run(python, "-c", code, cwd=home, env=alone).strip() == "True"

    def test_all_extras_together_can_be_installed(self, built: Path, tmp_path: Path) -> None:
        """Resolved with the tested versions; nothing is installed."""
        (made,) = built.glob("*.whl")
        run(sys.executable, "-m", "venv", tmp_path / "venv")
        wanted = f"proximo[{','.join(sorted(EXTRAS))}] @ {made.as_uri()}"
        run(tmp_path / "venv/bin/python", "-m", "pip", "install", *CONSTRAINTS, "--dry-run", wanted)
