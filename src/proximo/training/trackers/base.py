"""What the adapters of trackers share: the run's id in the folder, steps that come again, media, how a run ends."""

from __future__ import annotations

import atexit
import json
import os
import re
import stat
import sys
import tempfile
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from proximo.envs.rendering import write_video
from proximo.errors import ModelFileError, ProximoError
from proximo.files.budgets import Budgets
from proximo.files.plain_text import parse_json
from proximo.other_libraries import counts_as
from proximo.training.log_formats import Ending, Figure, HParam, Image, Tracker, Video, filter_excluded_keys

_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # ids and names become parts of paths and addresses
_RECORD_BYTES = 512
_IDENTITY_BYTES = 480  # of the record: the rest is for the step


class TrackerError(ProximoError, RuntimeError):
    """A tracker cannot be used as it is set up."""


class TrackedRun(Tracker):
    """A training as a run of an experiment tracker.

    ``folder/{name}.json`` keeps the run's id and the last step that was tracked. With ``resume`` the same run goes on.
    None of the trackers can take back a point, so metrics of steps that were tracked before, which come again when a
    training resumes from an older checkpoint, are left out; an exact resume has the same values there.

    A tracker that fails while a training runs (its server is gone) does not end it: that is a warning.
    """

    name: ClassVar[str]  # in ``configure``, ``--track`` and ``exclude=``

    def __init__(self, folder: str | os.PathLike[str], resume: bool = False, group: str | None = None) -> None:
        self.check()
        self.folder = Path(folder).resolve()
        self.resumes = resume
        self._record = RunRecord(self.folder / f"{self.name}.json", resume)
        self._tracked_before = self._last_step = self._record.step
        self._is_closed = False
        self._refused: set[str] = set()
        self._record.identity = self._open(self._record.identity, group)
        self._record.write(self._tracked_before)
        atexit.register(self._finish_at_exit)

    @property
    def run_id(self) -> str:
        """The run's id in the tracker."""
        return self._record.identity["id"]

    # ------------------------------------------------------------------------------------- what an adapter implements

    @classmethod
    @abstractmethod
    def check(cls) -> None:
        """Raise the error that says what to do, if runs of this tracker cannot be made here."""

    @abstractmethod
    def _open(self, identity: Mapping[str, str], group: str | None) -> dict[str, str]:
        """Begin a run, or go on with the one of ``identity``; returns its ``id`` and what else finds it again."""

    @abstractmethod
    def _write_values(self, values: dict[str, float | str], step: int) -> None:
        """Numbers and texts of one step."""

    def _kept_after(self, step: int) -> int:
        """The last step that the tracker would still have if this process were killed now, after ``step``."""
        return step

    @abstractmethod
    def _write_config(self, config: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def _write_picture(self, key: str, path: Path, step: int) -> None:
        """A PNG, GIF or MP4 file, which may be gone afterwards."""

    @abstractmethod
    def _write_model(self, path: Path) -> None: ...

    @abstractmethod
    def _finish(self, ending: Ending) -> None: ...

    # ------------------------------------------------------------------------------------------------------- protocol

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        if self._is_closed:
            raise ValueError(f"this {self.name} run is closed; configure a new logger")
        if step <= self._tracked_before:
            return
        values = {}
        for key, value in filter_excluded_keys(key_values, key_excluded, self.name).items():
            if (plain := _plain(value)) is not None:
                values[key] = plain
            else:
                self._write_other(key, value, step)
        with self._failing_as_warning("metrics"):
            self._write_values(values, step)
            self._record.write(self._kept_after(step))
            self._last_step = step

    def write_config(self, config: Mapping[str, Any]) -> None:
        with self._failing_as_warning("the configuration"):
            self._write_config(config)

    def write_film(self, key: str, path: Path, step: int) -> None:
        if step >= self._tracked_before:  # at that step itself the training may have ended before its film was made
            with self._failing_as_warning(f"the film {path.name}"):
                self._write_picture(key, path, step)

    def write_result(self, values: Mapping[str, float], step: int) -> None:
        with self._failing_as_warning("the result"):
            self._write_values(dict(values), step)

    def write_model(self, path: Path) -> None:
        with self._failing_as_warning(f"the model {path.name}"):
            self._write_model(path)

    def finish(self, ending: Ending) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._finish_at_exit)
        with self._failing_as_warning("the end of the run"):
            self._finish(ending)
            self._record.write(self._last_step)
        self._record.close()

    # -------------------------------------------------------------------------------------------------------- details

    def _write_other(self, key: str, value: Any, step: int) -> None:
        """Media as files; what no tracker can hold is said once."""
        if counts_as(value, HParam):
            self.write_config(value.hparam_dict)
            return
        with self._failing_as_warning(key), tempfile.TemporaryDirectory() as folder:
            path = picture_file(value, Path(folder))
            if path is None:
                self._refuse(key, value)
            else:
                self._write_picture(key, path, step)

    def _refuse(self, key: str, value: Any) -> None:
        if key not in self._refused:
            self._refused.add(key)
            warnings.warn(
                f"{self.name} gets no {key!r}: it is {type(value).__name__}, expected a number, a text, a figure, an "
                f"image or a video; record it with exclude={self.name!r}",
                stacklevel=2,
            )

    @contextmanager
    def _failing_as_warning(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever its package raises, also one that misses another package
            warnings.warn(f"{self.name} did not take {what}: {error}; the training goes on", stacklevel=3)

    def _finish_at_exit(self) -> None:
        """For programs that never close their logger: an error that ended Python is a failed run."""
        self.finish("failed" if getattr(sys, "last_value", None) is not None else "finished")


class RunRecord:
    """The file in a run's folder that says which run of a tracker it is, and up to which step it was tracked.

    It is rewritten at every step in one call, and its length stays the same: whoever is killed leaves a whole one.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self.identity: dict[str, str] = {}
        self.step = -1
        is_there = os.path.lexists(path)
        if is_there and not stat.S_ISREG(path.lstat().st_mode):
            raise TrackerError(
                f"{path} is no file of its own but a link, a folder or a device; remove it to begin a new run there"
            )
        # no link is followed and no pipe waited for, even if one has taken the file's place just now
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        self._file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        if resume and is_there:
            self._read()

    def _read(self) -> None:
        try:
            found = parse_json(os.pread(self._file.fileno(), _RECORD_BYTES + 1, 0), Budgets(), str(self.path))
            step = found.pop("step", None) if isinstance(found, dict) else None
            if not isinstance(found, dict) or not isinstance(step, int) or "id" not in found:
                raise ModelFileError("it has no id and step")
            names = {key: text for key, text in found.items() if isinstance(text, str) and _IDENTITY.fullmatch(text)}
            if names.keys() != found.keys():
                raise ModelFileError("ids and names are letters, digits and . _ -")
        except ModelFileError as error:
            self.close()
            raise TrackerError(
                f"{self.path} does not name the run of a tracker ({error}); remove it to begin a new run there"
            ) from error
        self.identity, self.step = names, step

    def write(self, step: int) -> None:
        needed = len(json.dumps(self.identity))  # ASCII, so as many bytes
        if needed > _IDENTITY_BYTES:
            raise TrackerError(
                f"{self.path} has room for {_IDENTITY_BYTES} bytes of ids and names, not {needed}; use a shorter "
                "name of the project"
            )
        text = json.dumps({**self.identity, "step": step}).encode()
        os.pwrite(self._file.fileno(), text.ljust(_RECORD_BYTES - 1) + b"\n", 0)

    def close(self) -> None:
        self._file.close()


def check_folder(variable: str) -> None:
    """Raise if a tracker could not write to the folder that its environment variable names, if that is set.

    wandb goes on among the temporary files instead, trackio without a store, and both say so where nobody may see it.
    """
    folder = os.environ.get(variable)
    if not folder:
        return
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK):
            raise PermissionError(f"{folder!r} may not be written")
    except OSError as error:
        raise TrackerError(f"{variable} names no folder to keep runs in: {error}; set it to one of your own") from error


def run_title(folder: Path) -> str:
    """A folder's name in the characters that every tracker takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", folder.name).lstrip("._-")[:100] or "run"


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, keys joined by dots.

    >>> flat({"env": "CartPole-v1", "policy_kwargs": {"net_arch": [64]}})
    {'env': 'CartPole-v1', 'policy_kwargs.net_arch': [64]}
    """
    items: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            items |= flat(value, f"{prefix}{key}.")
        else:
            items[f"{prefix}{key}"] = value
    return items


def _plain(value: Any) -> float | str | None:
    """A number or a text of Python; None for anything else."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        if (value.numel() if isinstance(value, torch.Tensor) else value.size) != 1:
            return None
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else None


def picture_file(value: Any, folder: Path) -> Path | None:
    """A figure or an image as a PNG file, a video as a GIF; None for anything else."""
    if counts_as(value, Figure):
        path = folder / "figure.png"
        value.figure.savefig(path)
        if value.close:
            from matplotlib import pyplot

            pyplot.close(value.figure)
        return path
    if counts_as(value, Image) and not isinstance(value.image, str):
        from PIL import Image as Picture

        pixels = _as_height_width_channel(value.image, value.dataformats)
        Picture.fromarray(pixels).save(folder / "image.png")
        return folder / "image.png"
    if counts_as(value, Video):
        frames = np.concatenate(list(_as_bytes(value.frames)), axis=-1)  # videos of a batch beside each other
        return write_video(folder / "video.gif", frames.transpose(0, 2, 3, 1), value.fps)
    return None


def _as_height_width_channel(image: Any, dataformats: str) -> np.ndarray[Any, Any]:
    pixels = _as_bytes(image)
    order = [dataformats.upper().index(axis) for axis in "HWC" if axis in dataformats.upper()]
    pixels = pixels.transpose(order)
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels


def _as_bytes(pixels: Any) -> np.ndarray[Any, Any]:
    """Brightness as TensorBoard has it: bytes, or floats from 0 to 1."""
    array = pixels.detach().cpu().numpy() if isinstance(pixels, torch.Tensor) else np.asarray(pixels)
    return array if array.dtype == np.uint8 else (np.clip(array, 0.0, 1.0) * 255).astype(np.uint8)
