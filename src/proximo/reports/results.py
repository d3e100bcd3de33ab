"""What a run folder holds about its training, read for reports and comparisons.

A run folder may come from anybody: nothing in it is believed to be complete or of the right kind, and files are read
within a budget.
"""

from __future__ import annotations

import time
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proximo.analysis.plotting import progress_file, read_curves
from proximo.errors import ModelFileError
from proximo.files.plain_text import printable, read_json
from proximo.functional.statistics import Interval, mean_interval
from proximo.training.journal import ACTIVITIES, read_journal
from proximo.training.run_folder import GROUP_FILE, PRESET_FILE, SET_ASIDE, RunFolder, RunFolderError

Curve: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]  # steps and values, [point] each

TRAINING_RETURN = "rollout/ep_rew_mean"
MOST_BYTES = 512 * 2**20  # of one file
MOST_UNPACKED = 64 * 2**20  # bytes of evaluations beyond the length of their file
MOST_EVALUATIONS, MOST_RETURNS = 2**16, 2**23  # each evaluation is an object, each return takes eight bytes
# what zipfile, zlib and NumPy raise for damaged archives and headers
UNREADABLE = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
DEEPEST = 3  # levels of folders between a folder of runs and its runs
LARGEST = 1e300  # integers of a file may be too large for a float
SECONDS_OF_SILENCE = 300  # after which a run without an end is no longer taken to be running


@dataclass(frozen=True)
class EvaluationResult:
    """Episodes played at one step of the training."""

    steps: int
    returns: NDArray[np.float64]  # [episode]

    @property
    def interval(self) -> Interval:
        return mean_interval(self.returns)


@dataclass(frozen=True)
class RunResult:
    """A run folder as it was when it was read."""

    folder: RunFolder
    config: dict[str, Any]
    curves: dict[str, Curve]
    evaluations: list[EvaluationResult]  # those during the training, by rising steps
    evaluation_after_training: EvaluationResult | None
    journal: list[dict[str, Any]]
    versions: dict[str, Any]
    last_change: float  # seconds since the epoch

    @property
    def env(self) -> str:
        return str(self.config.get("env", "?"))

    @property
    def algo(self) -> str:
        return str(self.config.get("algo", "?"))

    @property
    def seed(self) -> str:
        return str(self.config.get("seed", "?"))

    @property
    def steps(self) -> int:
        """Steps trained so far."""
        return max((int(steps[-1]) for steps, _ in self.curves.values()), default=0)

    @property
    def planned_steps(self) -> int | None:
        planned = self.config.get("n_timesteps")
        return int(planned) if isinstance(planned, int | float) and 0 < planned < 2**53 else None

    @property
    def training_return(self) -> float | None:
        """Mean return of the latest training episodes (at most 100)."""
        return self.last(TRAINING_RETURN)

    def last(self, column: str) -> float | None:
        return float(self.curves[column][1][-1]) if column in self.curves else None

    @property
    def evaluation(self) -> EvaluationResult | None:
        """The latest evaluation: the one after the training, or the last one during it."""
        during = self.evaluations[-1] if self.evaluations else None
        after = self.evaluation_after_training
        return during if after is None or (during is not None and during.steps > after.steps) else after

    @property
    def best_evaluation(self) -> EvaluationResult | None:
        return max(self.evaluations, key=lambda result: result.interval.mean, default=None)

    @property
    def status(self) -> str:
        """finished, interrupted, failed, running, or stopped: gone without a word."""
        last = next((entry for entry in reversed(self.journal) if entry["event"] in ("start", "end")), None)
        if last is not None and last["event"] == "end":
            return str(last.get("ending", "finished"))
        if last is None and self.folder.model.is_file():  # a run from before there were journals
            return "finished"
        return "running" if time.time() - self.last_change < SECONDS_OF_SILENCE else "stopped"

    @property
    def error(self) -> str | None:
        """What a failed run ended with."""
        last = self.journal[-1] if self.journal else {}
        return str(last["error"]) if last.get("event") == "end" and "error" in last else None

    @property
    def warnings(self) -> list[str]:
        texts = [str(entry.get("text", "")) for entry in self.journal if entry["event"] == "warning"]
        return list(dict.fromkeys(texts))

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by what they were spent on, all sessions of the run together; empty where nobody counted."""
        totals: dict[str, float] = {}
        session: dict[str, float] = {}
        for entry in [*self.journal, {"event": "start"}]:
            if entry["event"] == "start":
                totals = {name: totals.get(name, 0.0) + session.get(name, 0.0) for name in {**totals, **session}}
                session = {}
            elif entry["event"] in ("time", "end") and isinstance(entry.get("seconds"), dict):
                session = {name: _positive(entry["seconds"].get(name)) for name in ACTIVITIES}
        return {name: totals[name] for name in ACTIVITIES if totals.get(name, 0.0) > 0.0}

    @property
    def speed(self) -> float | None:
        """Steps per second of the latest session, counted while it trained."""
        return self.last("time/fps")

    @property
    def film(self) -> Path | None:
        """The film of the trained agent, else the newest one that was made on the way."""
        for suffix in ("gif", "mp4"):
            if self.folder.video(suffix).is_file():
                return self.folder.video(suffix)
        films = [path for suffix in ("gif", "mp4") for path in self.folder.path.glob(f"*/*.{suffix}") if path.is_file()]
        return max(films, key=lambda path: path.stat().st_mtime, default=None)


def read_run(folder: RunFolder) -> RunResult:
    """Read a run folder; files that are not there are empty, files that cannot be read are an error that names them."""
    _check_files(folder)
    return RunResult(
        folder=folder,
        config=folder.read_config(),
        curves=_read_curves(folder),
        evaluations=_read_evaluations(folder.evaluations),
        evaluation_after_training=_read_last_evaluation(folder),
        journal=read_journal(folder.journal),
        versions=read_versions(folder.versions),
        last_change=max((path.stat().st_mtime for path in files_of(folder)), default=0.0),
    )


def files_of(folder: RunFolder) -> list[Path]:
    """The files that a report is made from, as far as they are there."""
    names = (
        folder.config, folder.versions, folder.progress_csv, folder.path / "progress.json", folder.journal,
        folder.evaluations, folder.result,
    )  # fmt: skip
    return [path for path in names if path.is_file()]


def runs_within(path: Path) -> list[Path]:
    """``path`` if it is a run folder, else the run folders within it, by name.

    Links are left out, and what a group or a study's trial has set aside.

    Runs lie at most three levels deep: those of several seeds in a folder of their own, those in folders by name.
    """
    if (path / "config.toml").is_file():
        return [path]
    return sorted(_runs_below(path, DEEPEST))


def _runs_below(folder: Path, levels: int) -> Iterator[Path]:
    sets_aside = any((folder / name).is_file() for name in (GROUP_FILE, PRESET_FILE))
    for entry in folder.iterdir():
        if sets_aside and entry.name == SET_ASIDE:
            continue  # the same seed is there again, from the beginning
        if entry.name.startswith(".") or entry.is_symlink() or not entry.is_dir():
            continue  # links may lead elsewhere, or around without end
        if (entry / "config.toml").is_file():
            yield entry
        elif levels > 1:
            yield from _runs_below(entry, levels - 1)


def _read_curves(folder: RunFolder) -> dict[str, Curve]:
    try:
        path = progress_file(folder.path)
    except FileNotFoundError:  # nothing has been logged yet
        return {}
    try:
        return read_curves(path)
    except ValueError as error:
        raise RunFolderError(f"{path} cannot be read ({error}); expected the metrics of a training") from error


def _read_evaluations(path: Path) -> list[EvaluationResult]:
    """Stable-Baselines3's ``evaluations.npz``: ``timesteps`` [evaluation], ``results`` [evaluation, episode]."""
    if not path.is_file():
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > MOST_UNPACKED + path.stat().st_size:
                raise ValueError(f"it unpacks to {unpacked >> 20} MiB")
        with np.load(path, allow_pickle=False) as arrays:
            steps, results = arrays["timesteps"], np.atleast_2d(arrays["results"])
        if len(results) > MOST_EVALUATIONS or results.size > MOST_RETURNS:
            raise ValueError(f"it holds {len(results)} evaluations of together {results.size} returns")
        if steps.shape != (len(results),) or not np.issubdtype(steps.dtype, np.integer):
            raise ValueError(f"timesteps have shape {steps.shape}, results {results.shape}")
        returns = _real(results)
    except UNREADABLE as error:
        reason = printable(str(error))
        raise RunFolderError(f"{path} is no file of evaluations ({reason}); remove it or evaluate again") from error
    finite = [(int(step), row[np.isfinite(row)]) for step, row in zip(steps, returns, strict=True)]
    return sorted((EvaluationResult(step, row) for step, row in finite if row.size), key=lambda each: each.steps)


def _read_last_evaluation(folder: RunFolder) -> EvaluationResult | None:
    result = folder.read_result()
    evaluation = result.get("evaluation") if isinstance(result, dict) else None
    returns = evaluation.get("episode_rewards") if isinstance(evaluation, dict) else None
    steps = result.get("steps") if isinstance(result, dict) else None
    if not isinstance(returns, list) or not isinstance(steps, int) or not (values := _numbers(returns)).size:
        return None
    return EvaluationResult(steps, values)


def read_versions(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        versions = read_json(path)
    except ModelFileError as error:
        raise RunFolderError(f"{error}; remove it") from error
    return versions if isinstance(versions, dict) else {}


def _check_files(folder: RunFolder) -> None:
    for path in files_of(folder):
        if (size := folder.brought(path).stat().st_size) > MOST_BYTES:
            raise RunFolderError(f"{path} has {size >> 20} MiB, more than a report reads")


def _real(array: NDArray[Any]) -> NDArray[np.float64]:
    """An array of numbers; what else a file may hold (texts, dates, records) is none."""
    if array.dtype.kind not in "biuf":
        raise ValueError(f"it holds {array.dtype} where returns are expected")
    return array.astype(np.float64)


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    return np.array([float(value) for value in values if isinstance(value, int | float) and abs(value) < LARGEST])


def _positive(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0.0 <= value < LARGEST else 0.0
