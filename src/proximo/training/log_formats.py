"""What the logger writes to: a table for people, JSON lines, CSV, TensorBoard; what a tracker of experiments is."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import numpy as np
import torch

from proximo.errors import ArgumentValueError, MissingExtraError
from proximo.files.append_only import LogPositionError as LogPositionError
from proximo.files.append_only import cut_back, place_in
from proximo.files.atomic import write_whole
from proximo.other_libraries import counts_as, stands_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

Excluded = Mapping[str, tuple[str, ...]]
Ending: TypeAlias = Literal["finished", "interrupted", "failed"]


@stands_for("stable_baselines3.common.logger", "Video")
class Video:
    """Frames ``[batch, time, channel, height, width]`` for TensorBoard."""

    def __init__(self, frames: torch.Tensor, fps: float) -> None:
        """Arguments:
        frames: A tensor [batch, time, channel, height, width].
        fps: Frames per second.
        """
        self.frames = frames
        self.fps = fps


@stands_for("stable_baselines3.common.logger", "Figure")
class Figure:
    """A matplotlib figure for TensorBoard, closed after writing if ``close``."""

    def __init__(self, figure: MatplotlibFigure, close: bool) -> None:
        """Arguments:
        figure: The figure of matplotlib.
        close: Whether it is closed after writing.
        """
        self.figure = figure
        self.close = close


@stands_for("stable_baselines3.common.logger", "Image")
class Image:
    """An image for TensorBoard; ``dataformats`` names its axes, for example ``"HWC"``."""

    def __init__(self, image: torch.Tensor | np.ndarray[Any, Any] | str, dataformats: str) -> None:
        """Arguments:
        image: A tensor, an array or a text.
        dataformats: Names of its axes, such as HWC.
        """
        self.image = image
        self.dataformats = dataformats


@stands_for("stable_baselines3.common.logger", "HParam")
class HParam:
    """Hyperparameters for TensorBoard's HPARAMS tab, which shows them only beside at least one metric."""

    def __init__(self, hparam_dict: Mapping[str, bool | str | float | None], metric_dict: Mapping[str, float]) -> None:
        """Arguments:
        hparam_dict: Hyperparameters by name.
        metric_dict: Metrics by name; each must be logged too, or TensorBoard shows nothing.
        """
        if not metric_dict:
            raise ValueError("metric_dict is empty; TensorBoard shows hyperparameters only with at least one metric")
        self.hparam_dict = hparam_dict
        self.metric_dict = metric_dict


class FormatUnsupportedError(NotImplementedError):
    """A value that a format cannot hold, such as a video in a table."""

    def __init__(self, unsupported_formats: Sequence[str], value_description: str) -> None:
        """Arguments:
        unsupported_formats: The formats that cannot.
        value_description: What they cannot hold, in words.
        """
        super().__init__(
            f"{' and '.join(unsupported_formats)} cannot hold a {value_description}; "
            f"record it with exclude={tuple(unsupported_formats)!r}"
        )


class KVWriter:
    """Writes the values of one iteration.

    A writer made with ``resume=True`` leaves the file of an earlier training as it is; :meth:`set_state` takes it back
    to where a checkpoint was taken, so that the file goes on without gap or repetition.
    """

    resumes = False

    def get_state(self) -> dict[str, Any]:
        """Where the writer stands, as plain values; what was written until now is on the disk."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`get_state` gave."""

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write the values of one dump; each names the formats that leave it out."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""
        raise NotImplementedError


class Tracker(KVWriter):
    """A writer that keeps a whole run: beside the metrics its configuration, films, result and model, and its end.

    ``Logger.trackers`` are those of a logger; whoever trains tells them.
    """

    def write_config(self, config: Mapping[str, Any]) -> None:
        """What is trained and how: plain values, tables may be nested."""
        raise NotImplementedError

    def write_film(self, key: str, path: Path, step: int) -> None:
        """A GIF or MP4 file of the agent as it was at ``step``."""
        raise NotImplementedError

    def write_result(self, values: Mapping[str, float], step: int) -> None:
        """What came out of the training, at its last step."""
        raise NotImplementedError

    def write_model(self, path: Path) -> None:
        """The file of the trained model."""
        raise NotImplementedError

    def finish(self, ending: Ending) -> None:
        """End the run, and say how; a second call does nothing."""
        raise NotImplementedError

    def close(self) -> None:
        self.finish("finished")


class SeqWriter:
    """Writes messages."""

    def write_sequence(self, sequence: list[str]) -> None:
        """Write texts on one line."""
        raise NotImplementedError


def filter_excluded_keys(key_values: dict[str, Any], key_excluded: Excluded, _format: str) -> dict[str, Any]:
    """The values that ``_format`` may write.

    >>> filter_excluded_keys({"a": 1, "b": 2}, {"a": ("csv",), "b": ("",)}, "csv")
    {'b': 2}
    """
    return {key: value for key, value in key_values.items() if _format not in (key_excluded.get(key) or ())}


class HumanOutputFormat(KVWriter, SeqWriter):
    """A table of ``key | value`` grouped by the part of the key before the first slash.

    Keys and values longer than ``max_length`` end in dots, so the default table is at most 79 characters wide.
    Excluding either ``"stdout"`` or ``"log"`` leaves a value out of both, as Stable-Baselines3 does.
    """

    def __init__(self, filename_or_file: str | TextIO, max_length: int = 36, resume: bool = False) -> None:
        """Arguments:
        filename_or_file: A path, or a stream such as sys.stdout.
        max_length: Longest key or value.
        resume: Whether a file that is there goes on instead of being replaced.
        """
        self.max_length = max_length
        self.own_file = isinstance(filename_or_file, str)
        self.resumes = resume and self.own_file
        if isinstance(filename_or_file, str):
            self.file: TextIO = _open_text(filename_or_file, resume)
        elif hasattr(filename_or_file, "write"):
            self.file = filename_or_file
        else:
            raise ValueError(f"expected a path or an open text file, got {filename_or_file!r}")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        shown = filter_excluded_keys(filter_excluded_keys(key_values, key_excluded, "stdout"), key_excluded, "log")
        if not shown:
            warnings.warn("nothing was recorded that the table could show", stacklevel=2)
            return
        rows = list(self._rows(shown))
        key_width = max(len(key) for key, _ in rows)
        value_width = max(len(value) for _, value in rows)
        rule = "-" * (key_width + value_width + 7)
        lines = [f"| {key:<{key_width}} | {value:<{value_width}} |" for key, value in rows]
        self._write_text("\n".join([rule, *lines, rule]) + "\n")

    def _rows(self, key_values: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """(key, value) as printed: a row for each group, its keys indented below it."""
        taken: set[tuple[str, str]] = set()
        for key, value in sorted(key_values.items()):
            _refuse_media(value, ("stdout", "log"))
            group, slash, name = key.partition("/")
            if not group or not slash:
                group, name = "", key
            elif (group, "") not in taken:
                taken.add((group, ""))
                yield self._truncate(group + "/"), ""
            shown = self._truncate(f"   {name}" if group else name)
            if (group, shown) in taken:
                raise ValueError(f"two keys are cut to {shown!r}, one of them {key!r}; give a larger max_length")
            taken.add((group, shown))
            yield shown, self._truncate(f"{value:<8.3g}" if isinstance(value, float) else str(value))

    def _truncate(self, text: str) -> str:
        return text if len(text) <= self.max_length else text[: self.max_length - 3] + "..."

    def write_sequence(self, sequence: list[str]) -> None:
        self._write_text(" ".join(sequence) + "\n")

    def _write_text(self, text: str) -> None:
        # a live progress display replaces sys.stdout to print above itself: follow it
        file = sys.stdout if getattr(self.file, "name", None) == "<stdout>" else self.file
        file.write(text)
        file.flush()

    def get_state(self) -> dict[str, Any]:
        return place_in(self.file) if self.own_file else {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        if "bytes" in state:
            cut_back(self.file, state)

    def close(self) -> None:
        if self.own_file:
            self.file.close()


class JSONOutputFormat(KVWriter):
    """One JSON object per line."""

    def __init__(self, filename: str, resume: bool = False) -> None:
        """Arguments:
        filename: The path.
        resume: Whether a file that is there goes on instead of being replaced.
        """
        self.file = _open_text(filename, resume)
        self.resumes = resume

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        shown = filter_excluded_keys(key_values, key_excluded, "json")
        self.file.write(json.dumps({key: self._plain(value) for key, value in shown.items()}) + "\n")
        self.file.flush()

    @staticmethod
    def _plain(value: Any) -> Any:
        """Arrays and tensors as numbers or nested lists; one element is a number."""
        _refuse_media(value, ("json",))
        if not hasattr(value, "dtype"):
            return value
        return float(value.item()) if value.shape == () or len(value) == 1 else value.tolist()

    def get_state(self) -> dict[str, Any]:
        return place_in(self.file)

    def set_state(self, state: Mapping[str, Any]) -> None:
        cut_back(self.file, state)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class CSVOutputFormat(KVWriter):
    """One row per iteration under a header of all keys seen so far; a key that comes later gets an empty past."""

    _RECORD = re.compile(r'(?:[^"\n]|"[^"]*")*\n')  # a line, or several where a quoted text holds line breaks

    def __init__(self, filename: str, resume: bool = False) -> None:
        """Arguments:
        filename: The path.
        resume: Whether a file that is there goes on instead of being replaced.
        """
        self.file = _open_text(filename, resume)
        self.resumes = resume
        self.keys: list[str] = []
        self.rows = 0
        if resume and (records := self._records()):
            self.keys, self.rows = next(csv.reader(records[:1])), len(records) - 1

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        shown = filter_excluded_keys(key_values, key_excluded, "csv")
        new_keys = [key for key in shown if key not in self.keys]
        cells = {key: self._cell(value) for key, value in shown.items()}  # before writing: it may refuse a value
        if new_keys:
            past = [record[:-1] + "," * len(new_keys) + "\n" for record in self._records()[1:]]
            self.keys.extend(new_keys)
            self._rewrite(past)
        self.file.write(_csv_line([cells.get(key, "") for key in self.keys]))
        self.file.flush()
        self.rows += 1

    def _records(self) -> list[str]:
        """The lines written so far, header first; the half line of an interrupted writing is left out."""
        self.file.seek(0)
        records = self._RECORD.findall(self.file.read())
        self.file.seek(0, os.SEEK_END)
        return records

    def _rewrite(self, records: Sequence[str]) -> None:
        """Put a header for the keys and these rows in place of the file, in one step: a kill leaves old or new."""
        name = self.file.name
        self.file.close()
        write_whole(Path(name), _csv_line(self.keys) + "".join(records))
        self.file = _open_text(name, resume=True)

    def get_state(self) -> dict[str, Any]:
        place_in(self.file)  # all of it on the disk
        return {"keys": list(self.keys), "rows": self.rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        keys, rows = list(state["keys"]), int(state["rows"])
        records = self._records()[1:]
        if len(records) < rows or self.keys[: len(keys)] != keys:
            raise _too_short(self.file, f"{len(records)} rows", f"{rows} rows of {len(keys)} columns")
        later = len(self.keys) - len(keys)  # columns that came after the checkpoint: empty in the rows before it
        self.keys, self.rows = keys, rows
        self._rewrite([record[: len(record) - 1 - later] + "\n" for record in records[:rows]] if keys else [])
        if not keys:
            self.file.seek(0)
            self.file.truncate()

    @staticmethod
    def _cell(value: Any) -> str:
        _refuse_media(value, ("csv",))
        return "" if value is None else str(value)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _csv_line(cells: Sequence[str]) -> str:
    """A record; keys, lists and texts with commas, quotes or line breaks stay one cell."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


class TensorBoardOutputFormat(Tracker):
    """Scalars, texts, histograms of arrays, and media in TensorBoard's event files.

    The files lie in the run's folder beside the model; TensorBoard itself holds no models and no endings.
    """

    def __init__(self, folder: str, resume: bool = False) -> None:
        """Arguments:
        folder: Where event files go.
        resume: Whether they go on after the steps that are there.
        """
        self.writer = self._open(folder)
        self.folder = folder
        self.resumes = resume
        self._step = -1
        self._is_closed = False

    @staticmethod
    def _open(folder: str, purge_step: int | None = None) -> Any:
        require_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(log_dir=folder, purge_step=purge_step)

    def get_state(self) -> dict[str, Any]:
        return {"step": self._step}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """TensorBoard shows no earlier event of a step from here on."""
        self.writer.close()
        self._step = int(state["step"])
        self.writer = self._open(self.folder, purge_step=self._step + 1)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        if self._is_closed:
            raise ArgumentValueError("this TensorBoard writer is closed; configure a new logger")
        self._step = step
        for key, value in sorted(filter_excluded_keys(key_values, key_excluded, "tensorboard").items()):
            self._add(key, value, step)
        self.writer.flush()

    def _add(self, key: str, value: Any, step: int) -> None:
        writer = self.writer
        if isinstance(value, str):
            writer.add_text(key, value, step)
        elif isinstance(value, np.ScalarType):
            writer.add_scalar(key, value, step)
        elif isinstance(value, torch.Tensor | np.ndarray):
            writer.add_histogram(key, torch.as_tensor(value), step)
        elif counts_as(value, Video):
            writer.add_video(key, value.frames, step, value.fps)
        elif counts_as(value, Figure):
            writer.add_figure(key, value.figure, step, close=value.close)
        elif counts_as(value, Image):
            writer.add_image(key, value.image, step, dataformats=value.dataformats)
        elif counts_as(value, HParam):
            self._add_hyperparameters(value)

    def _add_hyperparameters(self, value: HParam) -> None:
        # SummaryWriter.add_hparams would open a second run folder
        from torch.utils.tensorboard.summary import hparams

        for summary in hparams(dict(value.hparam_dict), metric_dict=dict(value.metric_dict)):
            self.writer._get_file_writer().add_summary(summary)

    def write_config(self, config: Mapping[str, Any]) -> None:
        text = json.dumps(config, indent=2, default=str)
        self.writer.add_text("config", "\n".join(f"    {line}" for line in text.splitlines()), max(self._step, 0))
        self.writer.flush()

    def write_film(self, key: str, path: Path, step: int) -> None:
        """A GIF as it is; TensorBoard shows no MP4."""
        from PIL import Image as Picture
        from tensorboard.compat.proto.summary_pb2 import Summary

        with Picture.open(path) as picture:
            width, height = picture.size
        shown = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes())
        summary = Summary(value=[Summary.Value(tag=key, image=shown)])
        self.writer._get_file_writer().add_summary(summary, step)
        self.writer.flush()

    def write_result(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)

    def write_model(self, path: Path) -> None:
        """Nothing: the model is in the folder already."""

    def finish(self, ending: Ending) -> None:
        self.writer.close()
        self._is_closed = True


def require_tensorboard() -> None:
    """Raise the error that names the install command if TensorBoard is missing."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("tensorboard", "tensorboard", "logging to TensorBoard") from error


def _open_text(filename: str, resume: bool) -> Any:
    """A text file to read and write: empty, or the one that is there with its end as the place to write."""
    file = open(filename, "a+" if resume else "w+", encoding="utf-8", newline="\n")  # noqa: SIM115 -- the writer closes
    if resume:  # "a+" made a missing file; "r+" can be cut and written anywhere
        file.close()
        file = open(filename, "r+", encoding="utf-8", newline="\n")  # noqa: SIM115
        file.seek(0, os.SEEK_END)
    return file


def _too_short(file: TextIO, present: str, expected: str) -> LogPositionError:
    return LogPositionError(
        f"{file.name} holds {present}, fewer than the {expected} that were written when the checkpoint was taken; "
        "bring the file back, or resume with a logger that begins new files"
    )


def _refuse_media(value: Any, formats: tuple[str, ...]) -> None:
    if any(counts_as(value, kind) for kind in (Video, Figure, Image, HParam)):
        raise FormatUnsupportedError(formats, type(value).__name__.lower())
