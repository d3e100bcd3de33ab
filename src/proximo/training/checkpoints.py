"""A training's checkpoints: taken every so often, a few of them kept, damage noticed and never passed over.

A checkpoint is a model file that also holds everything else that decides how the training goes on::

    checkpoints = PeriodicCheckpoints("checkpoints", every_steps=50_000)
    model.learn(1_000_000, callback=checkpoints)
    # … after a crash, in a new process:
    model = PPO.load(CheckpointFolder("checkpoints").newest(), env=make_vec_env(…))
    model.resume(callback=PeriodicCheckpoints("checkpoints", every_steps=50_000))

gives the same weights and metrics, bit for bit, as the training that was not interrupted.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from proximo.errors import EnvironmentStateError, ModelFileError, ProximoError
from proximo.files.archive import verify_archive
from proximo.files.atomic import remove_leftovers, replacing
from proximo.files.budgets import Budgets
from proximo.training.callback_base import BaseCallback

DEFAULT_MINUTES = 10.0
MAX_CHECKPOINT_GIGABYTES = 16.0
"""The largest checkpoint that a run reads back unless told otherwise: PPG at its paper's scale has 6.5."""
MOST_OF_THE_TIME = 0.01
"""Checkpoints by the clock take at most this share of it: when saving is slow, they come less often."""


class NoCheckpointError(ProximoError, FileNotFoundError):
    """There is nothing to resume from."""


class CheckpointFolder:
    """The checkpoints in a folder, ``{prefix}_{steps}_steps.zip`` and ``best.zip``.

    ``max_bytes`` is the largest that is read to see whether it is intact; those of one's own may be large.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        prefix: str = "model",
        max_bytes: int = int(MAX_CHECKPOINT_GIGABYTES * 1e9),
    ) -> None:
        """Arguments:
        path: The folder.
        prefix: What names of checkpoints begin with.
        max_bytes: The largest file that is read to see whether it is intact.
        """
        self.path = Path(path)
        self.prefix = prefix
        self.max_bytes = max_bytes

    @property
    def best(self) -> Path:
        """The checkpoint with the highest mean return of the latest episodes."""
        return self.path / "best.zip"

    def of(self, steps: int) -> Path:
        """The checkpoint of a number of steps."""
        return self.path / f"{self.prefix}_{steps}_steps.zip"

    def steps_of(self, path: Path) -> int:
        """The number of steps in a checkpoint's name; −1 for another file."""
        match = re.fullmatch(rf"{re.escape(self.prefix)}_(\d+)_steps\.zip", path.name)
        return int(match[1]) if match else -1

    def all(self) -> list[Path]:
        """The checkpoints, oldest first."""
        checkpoints = (
            [path for path in self.path.glob("*.zip") if self.steps_of(path) >= 0] if self.path.is_dir() else []
        )
        return sorted(checkpoints, key=self.steps_of)

    def newest(self) -> Path:
        """The newest checkpoint, known to be intact.

        When it is damaged, the error names the newest intact one before it: which of them to go on from is for the
        user to say.
        """
        checkpoints = self.all()
        if not checkpoints:
            raise NoCheckpointError(
                f"no checkpoint in {self.path}: the training ended before its first; start it again"
            )
        return self.checked(checkpoints[-1])

    def checked(self, path: Path) -> Path:
        """``path`` itself, if it is intact."""
        try:
            verify_archive(path, Budgets(total_bytes=self.max_bytes))
        except ModelFileError as error:
            raise ModelFileError(f"{error}; {self._offer_before(path)}") from error
        return path

    def _offer_before(self, damaged: Path) -> str:
        for path in reversed(self.all()):
            if self.steps_of(path) < self.steps_of(damaged) and self._is_intact(path):
                return f"the newest intact checkpoint before it is {path}: resume from that one by its name"
        return "no checkpoint before it is intact"

    def _is_intact(self, path: Path) -> bool:
        try:
            verify_archive(path, Budgets(total_bytes=self.max_bytes))
        except ModelFileError:
            return False
        return True

    def prune(self, keep: int) -> None:
        """Remove all but the ``keep`` newest, also of those set aside, and what writings that were killed left."""
        for path in (*self.all()[:-keep], *self.set_aside()[:-keep]):
            path.unlink(missing_ok=True)
        remove_leftovers(self.path)

    def set_aside_after(self, steps: int) -> None:
        """Rename what lies beyond the steps where a training starts or goes on, so that it is not taken for its own.

        The names get ``.old`` behind them, ``.old-2`` and so on where that is taken: none replaces another.
        """
        for path in self.all():
            if self.steps_of(path) > steps:
                aside, number = path.with_name(f"{path.name}.old"), 1
                while aside.exists():
                    number += 1
                    aside = path.with_name(f"{path.name}.old-{number}")
                os.utime(path)  # the time when it was set aside, by which it is kept
                os.rename(path, aside)

    def set_aside(self) -> list[Path]:
        """What :meth:`set_aside_after` renamed, in the order in which it did."""
        paths = self.path.glob(f"{glob.escape(self.prefix)}_*_steps.zip.old*") if self.path.is_dir() else []
        return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, self.steps_of(path.with_suffix(""))))


class PeriodicCheckpoints(BaseCallback):
    """Saves a checkpoint before the first step and then every ``every_steps`` steps or ``every_minutes`` minutes.

    Without an interval it is ten minutes, longer where saving takes more than 1 % of the time. Checkpoints are taken
    between iterations, so an interval ends with the update that completes it. The ``keep_last`` newest are kept, and
    with ``keep_best`` a copy of the one with the highest mean return, ``best.zip``.

    There is one at the end of the training too, from which a longer one can go on.

    Environments that cannot give their state (``env.has_state()``) are left out, with a warning: a resume resets them,
    and is not exact; with ``exact=True`` they are an error. Exact for every environment that its reset seed determines
    is ``boundary=True``: at every checkpoint they are seeded again and reset, in an uninterrupted training too. It
    needs ``every_steps``, since the checkpoints are then part of what is trained, and has none at the end out of turn.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "saved_at", "best_mean")

    def __init__(
        self,
        folder: str | os.PathLike[str] | CheckpointFolder,
        *,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        keep_last: int = 3,
        keep_best: bool = True,
        boundary: bool = False,
        exact: bool = False,
        verbose: int = 0,
    ) -> None:
        """Arguments:
        folder: Where checkpoints go.
        every_steps: Steps between two, of all environments together.
        every_minutes: Minutes between two; not with every_steps.
        keep_last: How many of the newest are kept.
        keep_best: Whether the one with the highest mean return is kept too, as best.zip.
        boundary: Whether environments are seeded and reset at every checkpoint, so that any of them resumes
            exactly.
        exact: Whether environments that cannot give their state are an error instead of a warning.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.folder = folder if isinstance(folder, CheckpointFolder) else CheckpointFolder(folder)
        if every_steps is not None and every_minutes is not None:
            raise ValueError("give an interval in steps or in minutes, not both")
        for name, value in (("every_steps", every_steps), ("every_minutes", every_minutes), ("keep_last", keep_last)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; expected a number above 0")
        if boundary and every_steps is None:
            raise ValueError(
                "boundary mode resets the environments at every checkpoint, which must not depend on the clock: give "
                "the interval in steps (every_steps=…)"
            )
        self.every_steps = every_steps
        self.every_seconds = 60.0 * (DEFAULT_MINUTES if every_minutes is None else every_minutes)
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.boundary = boundary
        self.exact = exact
        self.saved_at: int | None = None  # steps
        self.best_mean = -np.inf
        self.seconds_per_save = 0.0
        self._save_asked = self._stop_asked = False
        self._has_environments = True  # whether the state of the environments is part of the checkpoints
        self._clock: Callable[[], float] = time.monotonic
        self._next_time = 0.0

    def _init_callback(self) -> None:
        self.saved_at = None
        self._save_asked = self._stop_asked = False
        self._has_environments = self.boundary or self.model.has_state()
        if not self._has_environments:
            self._say_what_is_left_out()
        self._next_time = self._clock() + self.every_seconds

    def _say_what_is_left_out(self) -> None:
        try:
            self.model.training_state()  # says which environment or wrapper it is
        except EnvironmentStateError as error:
            if self.exact:
                raise EnvironmentStateError(f"exact checkpoints are not possible: {error}") from error
            warnings.warn(
                f"checkpoints hold the weights, the optimiser, the normaliser, the random states and the counters, but "
                f"not the environments: {error}. A resume resets them and is not exact",
                stacklevel=2,
            )

    def training_state(self) -> dict[str, Any]:
        """What a checkpoint of this moment holds besides the model."""
        state: dict[str, Any] = self.model.training_state(self.boundary, exact=self._has_environments)
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        if self.saved_at is not None and self._is_writer:
            self.folder.set_aside_after(self.model.num_timesteps)

    def ask_for_save(self, stop: bool = False) -> None:
        """Save at the end of this iteration, and end the training there if ``stop``; safe in a signal handler.

        In boundary mode nothing is saved out of turn: resuming repeats what came after the latest boundary.
        """
        self._save_asked, self._stop_asked = True, self._stop_asked or stop

    def _between_iterations(self) -> bool:
        asked = self._save_asked and not self.boundary  # a boundary out of turn would be another run
        # clocks and signals differ between processes that train together, and all must save
        due, stop = self.model.highest_of_all(self._is_due() or asked, self._stop_asked)
        if due:
            self.save()
        self._save_asked = False
        return not stop

    def _is_due(self) -> bool:
        if self.saved_at is None:
            return True  # the first one, before the first step: whatever cannot be saved is found out now
        if not self.boundary and self.num_timesteps >= self.model._total_timesteps:
            return self.num_timesteps != self.saved_at  # the last one
        if self.every_steps is not None:
            return self.num_timesteps - self.saved_at >= self.every_steps
        return self._clock() >= self._next_time

    def save(self) -> Path:
        """Save a checkpoint now, which must be between two iterations."""
        started = self._clock()
        mean = self._mean_return()
        is_best = self.keep_best and mean > self.best_mean
        if self.saved_at is None and self._is_writer:
            self.folder.set_aside_after(self.num_timesteps)
        self.saved_at = self.num_timesteps
        self.best_mean = mean if is_best else self.best_mean
        path = self.folder.of(self.num_timesteps)
        self.model.save_checkpoint(path, self.training_state())
        if self._is_writer:
            if is_best:
                with replacing(self.folder.best) as stream, path.open("rb") as source:
                    shutil.copyfileobj(source, stream)
            self.folder.prune(self.keep_last)
        finished = self._clock()
        self.seconds_per_save = finished - started
        self._next_time = finished + max(self.every_seconds, self.seconds_per_save / MOST_OF_THE_TIME)
        self._announce(f"checkpoint {path} in {1000 * self.seconds_per_save:.0f} ms")
        return path

    def save_state(self, state: Mapping[str, Any]) -> Path:
        """Save a checkpoint of an earlier state with the weights of now, which must not have changed since."""
        path = self.folder.of(state["progress"]["num_timesteps"])
        if self._is_writer and not path.exists():
            self.model.save_checkpoint(path, state)
            self.folder.prune(self.keep_last)
        return path

    def _mean_return(self) -> float:
        episodes = self.model.ep_info_buffer
        return float(np.mean([episode["r"] for episode in episodes])) if episodes else -np.inf
