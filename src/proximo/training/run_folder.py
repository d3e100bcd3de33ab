"""A run's folder, self-describing: its configuration as TOML, the versions it ran with, metrics and models."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli_w

from proximo.errors import ModelFileError, ProximoError
from proximo.files.atomic import write_whole
from proximo.files.plain_text import read_json, read_toml

PACKAGES = ("proximo", "torch", "numpy", "numba", "scipy", "gymnasium", "safetensors")
ENVIRONMENT_PACKAGES = ("ale-py", "envpool", "mujoco", "pybullet", "pybullet-envs-gymnasium", "procgen-mirror")


GROUP_FILE = "group.toml"
"""In a folder that holds runs with several seeds: what is trained there."""
PRESET_FILE = "preset.toml"
"""In a folder that holds the runs of a study's trial: its preset."""
SET_ASIDE = "failed"
"""The folder in either with runs that were trained from the beginning again."""


class RunFolderError(ProximoError, ValueError):
    """A path that was expected to be the folder of a run, and is not."""


@dataclass(frozen=True)
class RunFolder:
    """The names of a run's files. Made by :meth:`create` or found by :meth:`open`; the constructor touches nothing.

    Arguments:
        path: The folder, which need not be there.
    """

    path: Path

    @classmethod
    def create(cls, root: str | os.PathLike[str], name: str) -> RunFolder:
        """Make ``root/{name}-{date}-{time}``, and ``…-2``, ``…-3`` for runs started in the same second.

        Making a folder either succeeds for one process or fails, so two runs never share one.
        """
        return cls(make_dated_folder(Path(root), name))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The run at ``path``, which may also be a file within it, such as its model."""
        given = Path(path)
        if not given.exists():
            raise RunFolderError(
                f"no run folder {given}: it does not exist; give the folder that `proximo train` named"
            )
        folder = given.parent if given.is_file() else given
        if folder.name == "checkpoints" and not (folder / "config.toml").exists():
            folder = folder.parent
        run = cls(folder)
        if not run.config.is_file():
            inside = sorted(entry.name for entry in folder.iterdir() if (entry / "config.toml").is_file())
            hint = f"it holds the runs {', '.join(inside[-3:])}: give one of these" if inside else "give another path"
            if run.model.is_file():  # of a training whose environments have no id
                hint = f"to play its model, give {run.model} and the environment, --env ID"
            raise RunFolderError(f"{folder} is no run folder: it has no config.toml; {hint}")
        return run

    @property
    def config(self) -> Path:
        """The configuration, config.toml."""
        return self.path / "config.toml"

    @property
    def versions(self) -> Path:
        """Versions and machine, versions.json."""
        return self.path / "versions.json"

    @property
    def progress_csv(self) -> Path:
        """Metrics as a table."""
        return self.path / "progress.csv"

    @property
    def progress_jsonl(self) -> Path:
        """Metrics as lines of JSON."""
        return self.path / "progress.jsonl"

    @property
    def journal(self) -> Path:
        """Sessions, warnings and times."""
        return self.path / "journal.jsonl"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.path / "model.zip"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """The model with the highest mean return of the evaluations during the training."""
        return self.path / "best.zip"

    @property
    def evaluations(self) -> Path:
        """The evaluations during the training."""
        return self.path / "evaluations.npz"

    @property
    def result(self) -> Path:
        """Written when the run is over: its steps and time, and the evaluation after the training."""
        return self.path / "result.json"

    @property
    def printed(self) -> Path:
        """What libraries and environments printed."""
        return self.path / "output.log"

    def film(self, steps: int) -> Path:
        """Where a film of the agent goes as it was after so many steps."""
        return self.path / "films" / f"step_{steps}.gif"

    @property
    def learning_curve(self) -> Path:
        """The picture of the mean return."""
        return self.path / "learning_curve.png"

    @property
    def error(self) -> Path:
        """The traceback of the error that ended the training."""
        return self.path / "error.txt"

    def video(self, suffix: str = "mp4") -> Path:
        """Where the video goes; the suffix says in which format (``gif`` or ``mp4``)."""
        return self.path / f"video.{suffix}"

    def leads_out(self, path: Path) -> bool:
        """Whether a file of the run is a link to one elsewhere.

        A stranger's folder must not bring the reader's own files, nor have them overwritten.
        """
        return not path.resolve().is_relative_to(self.path.resolve())

    def own(self, path: Path) -> Path:
        """A file of the run that is about to be written, unless it is a link to one elsewhere."""
        if self.leads_out(path):
            raise RunFolderError(
                f"{path} leads out of the run folder, to {path.resolve()}; remove it, or say where to write: -o FILE"
            )
        return path

    def brought(self, path: Path) -> Path:
        """A file of the run that is about to be read and shown to others, unless it is a link to one elsewhere."""
        if self.leads_out(path):
            raise RunFolderError(f"{path} leads out of the run folder, to {path.resolve()}; put a copy in its place")
        return path

    def set_aside(self) -> None:
        """Move the run into the folder ``failed`` beside it: it is trained from the beginning again."""
        place = self.path.parent / SET_ASIDE
        place.mkdir(exist_ok=True)
        self.path.rename(place / self.path.name)

    def write_config(self, config: Mapping[str, Any]) -> str:
        """Write the configuration as TOML and return the text; None, which TOML has no word for, is left out."""
        text = to_toml(config)
        write_whole(self.config, text)
        return text

    def read_config(self) -> dict[str, Any]:
        """The configuration as a dictionary, checked."""
        try:
            return read_toml(self.config)
        except ModelFileError as error:
            raise RunFolderError(f"{error}; mend it or train again") from error

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json: what came out of the run."""
        write_whole(self.result, json.dumps(result, indent=2) + "\n")

    def read_result(self) -> dict[str, Any] | None:
        """What :meth:`write_result` wrote; None for a run that is not over."""
        if not self.result.is_file():
            return None
        try:
            result = read_json(self.result)
        except ModelFileError as error:
            raise RunFolderError(f"{error}; resume the run to write it again") from error
        if not isinstance(result, dict):
            raise RunFolderError(f"{self.result} holds no table; resume the run to write it again")
        return result

    def write_versions(self) -> dict[str, Any]:
        """Write down what the run ran on, and return it."""
        versions = collect_versions()
        write_whole(self.versions, json.dumps(versions, indent=2) + "\n")
        return versions


def make_unique_folder(first: Path) -> Path:
    """Make the folder ``first``, or ``first-2``, ``first-3``, … where that is taken; return the one made."""
    first.parent.mkdir(parents=True, exist_ok=True)
    candidate, count = first, 1
    while True:
        try:
            candidate.mkdir()
            return candidate
        except FileExistsError:
            count += 1
            candidate = first.with_name(f"{first.name}-{count}")


def make_dated_folder(root: Path, name: str) -> Path:
    """Make ``root/{name}-{date}-{time}``, or that with a number behind it; return the one made."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return make_unique_folder(root / f"{file_name(name)}-{stamp}")


def run_name(environment: str, algorithm: str, seed: int | None) -> str:
    """``{env}-{algo}-{seed}`` in characters that every file system takes.

    >>> run_name("ALE/Pong-v5", "ppo", 3)
    'ALE_Pong-v5-ppo-3'
    """
    return file_name(f"{environment}-{algorithm}-{'noseed' if seed is None else seed}")


def file_name(text: str) -> str:
    """Text as the name of one file: letters, digits, ``. _ -``, no leading dot, not too long."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).lstrip(".")[:180] or "run"


# ------------------------------------------------------------------------------------------------------------- TOML


def to_toml(table: Mapping[str, Any]) -> str:
    """Plain values as a TOML document; None, which TOML has no word for, is left out.

    >>> print(to_toml({"steps": 1e5, "env": "CartPole-v1", "seed": None, "ppo": {"gamma": 0.9}}), end="")
    steps = 100000.0
    env = "CartPole-v1"
    <BLANKLINE>
    [ppo]
    gamma = 0.9
    """
    return tomli_w.dumps(_plain(table, ()))


def _plain(value: Any, path: tuple[str, ...]) -> Any:
    """A value in the types that TOML has, or an error that names its place."""
    if isinstance(value, Mapping):
        return {_text(key): _plain(item, (*path, str(key))) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item, path) for item in value]
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool | int | float):
        return next(kind(value) for kind in (bool, int, float) if isinstance(value, kind))  # NumPy's are of these too
    raise TypeError(
        f"{'.'.join(path)} is {type(value).__name__} {value!r:.60}, which TOML cannot hold; expected text, numbers, "
        "truth values, lists and dictionaries"
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a configuration key is {type(value).__name__} {value!r:.60}, expected text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TypeError(f"{value!r:.60} holds half a character, which TOML cannot hold ({error.reason})") from error
    return value


# --------------------------------------------------------------------------------------------------------- versions


def collect_versions() -> dict[str, Any]:
    """Python, machine, packages and, within a git repository, the revision of the current folder."""
    packages = {name: package_version(name) for name in PACKAGES + ENVIRONMENT_PACKAGES}
    versions: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "packages": {name: version for name, version in packages.items() if version is not None},
    }
    revision = git_revision(Path.cwd())
    return versions if revision is None else {**versions, **revision}


def package_version(name: str) -> str | None:
    """The version of an installed package; None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def git_revision(folder: Path) -> dict[str, Any] | None:
    """The commit checked out in a folder and whether files differ from it; None outside git or without git."""
    revision = _git(folder, "rev-parse", "HEAD")
    if revision is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git_revision": revision, "git_changed": bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", *arguments]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return result.stdout.strip()
