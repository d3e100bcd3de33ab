"""The logger: values are recorded under names, and written to every output when an iteration ends."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proximo.distributed import is_first
from proximo.errors import MissingExtraError, near_matches
from proximo.training.log_formats import CSVOutputFormat as CSVOutputFormat
from proximo.training.log_formats import Ending as Ending
from proximo.training.log_formats import Figure as Figure
from proximo.training.log_formats import FormatUnsupportedError as FormatUnsupportedError
from proximo.training.log_formats import HParam as HParam
from proximo.training.log_formats import HumanOutputFormat as HumanOutputFormat
from proximo.training.log_formats import Image as Image
from proximo.training.log_formats import JSONOutputFormat as JSONOutputFormat
from proximo.training.log_formats import KVWriter as KVWriter
from proximo.training.log_formats import SeqWriter as SeqWriter
from proximo.training.log_formats import TensorBoardOutputFormat as TensorBoardOutputFormat
from proximo.training.log_formats import Tracker as Tracker
from proximo.training.log_formats import Video as Video
from proximo.training.log_formats import filter_excluded_keys as filter_excluded_keys
from proximo.training.log_formats import require_tensorboard
from proximo.training.trackers import TRACKERS, check_tracker, make_tracker

if TYPE_CHECKING:
    import pandas

DEBUG = 10
INFO = 20
WARN = 30
ERROR = 40
DISABLED = 50

FORMATS = ("stdout", "log", "json", "csv", "tensorboard", *TRACKERS)

_PLAIN = (int, float, str, np.generic)  # what a checkpoint keeps of values not yet written; a film is lost


class Logger:
    """Collects named values and hands them to its output formats at :meth:`dump`.

    >>> logger = Logger(None, [])
    >>> logger.record_mean("train/loss", 1.0)
    >>> logger.record_mean("train/loss", 3.0)
    >>> logger.name_to_value["train/loss"]
    2.0
    """

    def __init__(self, folder: str | None, output_formats: Sequence[KVWriter]) -> None:
        """Arguments:
        folder: Where files are; None has none.
        output_formats: What values are handed to.
        """
        self.name_to_value: dict[str, Any] = defaultdict(float)
        self.name_to_count: dict[str, int] = defaultdict(int)
        self.name_to_excluded: dict[str, tuple[str, ...]] = {}
        self.level = INFO
        self.output_formats = list(output_formats)
        self._folder = folder

    @property
    def dir(self) -> str | None:
        """The folder of the files; None has none."""
        return self._folder

    def get_dir(self) -> str | None:
        """The folder of the log files; None if there is none."""
        return self.dir

    @staticmethod
    def to_tuple(string_or_tuple: str | tuple[str, ...] | None) -> tuple[str, ...]:
        """Format names as a tuple; none is the empty name."""
        if isinstance(string_or_tuple, tuple):
            return string_or_tuple
        return (string_or_tuple or "",)

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Keep ``value`` for the next dump, in place of an earlier one; ``exclude`` names formats that shall not."""
        self.name_to_value[key] = value
        self.name_to_excluded[key] = self.to_tuple(exclude)

    def record_mean(self, key: str, value: float | None, exclude: str | tuple[str, ...] | None = None) -> None:
        """Like :meth:`record`, averaging the values recorded until the next dump; None is passed over."""
        if value is None:
            return
        count = self.name_to_count[key] + 1
        self.name_to_count[key] = count
        mean = value if count == 1 else self.name_to_value[key]
        self.name_to_value[key] = mean + (value - mean) / count
        self.name_to_excluded[key] = self.to_tuple(exclude)

    def dump(self, step: int = 0) -> None:
        """Write what was recorded since the last dump.

        ``name_to_value`` keeps it until it is recorded again: callbacks read the latest losses there.
        """
        if self.level == DISABLED:
            return
        recorded = {name: self.name_to_value[name] for name in self.name_to_excluded}
        for output in self._own_outputs():
            output.write(recorded, self.name_to_excluded, step)
        self.name_to_count.clear()
        self.name_to_excluded.clear()

    def log(self, *args: Any, level: int = INFO) -> None:
        """Write a message to the formats that take messages, unless the logger's level is higher."""
        if self.level <= level:
            for output in self.output_formats:
                if isinstance(output, SeqWriter):
                    output.write_sequence([str(part) for part in args])

    def debug(self, *args: Any) -> None:
        """A line of level DEBUG."""
        self.log(*args, level=DEBUG)

    def info(self, *args: Any) -> None:
        """A line of level INFO."""
        self.log(*args, level=INFO)

    def warn(self, *args: Any) -> None:
        """A line of level WARN."""
        self.log(*args, level=WARN)

    def error(self, *args: Any) -> None:
        """A line of level ERROR."""
        self.log(*args, level=ERROR)

    def set_level(self, level: int) -> None:
        """Lines below this level are left out."""
        self.level = level

    def get_state(self) -> dict[str, Any]:
        """What is recorded but not yet written, and where each output stands, as plain values."""
        return {
            "values": {key: value for key, value in self.name_to_value.items() if isinstance(value, _PLAIN)},
            "counts": dict(self.name_to_count),
            "excluded": {key: list(formats) for key, formats in self.name_to_excluded.items()},
            "outputs": [[type(output).__name__, output.get_state()] for output in self._own_outputs()],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`get_state` gave; outputs that were opened again stay as they are."""
        self.name_to_value.update(state["values"])
        self.name_to_count.update(state["counts"])
        self.name_to_excluded.update({key: tuple(formats) for key, formats in state["excluded"].items()})
        saved = list(state["outputs"])
        for output in self._own_outputs():
            match = next((entry for entry in saved if entry[0] == type(output).__name__), None)
            if match is not None:
                saved.remove(match)
                if output.resumes:
                    output.set_state(match[1])

    def _own_outputs(self) -> list[KVWriter]:
        """Those that can say where they stand; one of another library's class may not."""
        return [output for output in self.output_formats if isinstance(output, KVWriter)]

    @property
    def trackers(self) -> list[Tracker]:
        """The outputs that keep more of a run than its metrics."""
        return [output for output in self.output_formats if isinstance(output, Tracker)]

    def close(self, ending: Ending = "finished") -> None:
        """Close every output; trackers learn how the run ended."""
        for output in self.output_formats:
            if isinstance(output, Tracker):
                output.finish(ending)
            else:
                output.close()


class _UnsavedLogger(Logger):
    """A logger without files: its temporary folder is made only if somebody asks for it."""

    @property
    def dir(self) -> str | None:
        if self._folder is None:
            self._folder = _temporary_folder()
            os.makedirs(self._folder, exist_ok=True)
        return self._folder


def configure(
    folder: str | os.PathLike[str] | None = None, format_strings: Sequence[str] | None = None, resume: bool = False
) -> Logger:
    """A logger that writes ``format_strings`` into ``folder``.

    They are of stdout, log, json, csv, tensorboard and the trackers wandb, mlflow, trackio; of processes that train
    together only the first tracks.
    With ``resume`` the files that are there go on, instead of beginning again: for a model loaded from a checkpoint,
    whose ``learn(…, reset_num_timesteps=False)`` takes them back to where the checkpoint was taken.
    Without arguments the environment variables ``SB3_LOGDIR`` and ``SB3_LOG_FORMAT`` decide, then a new folder in the
    system's temporary one and ``stdout,log,csv``.
    """
    if format_strings is None:
        format_strings = os.getenv("SB3_LOG_FORMAT", "stdout,log,csv").split(",")
    formats = [name for name in format_strings if name and (name not in TRACKERS or is_first())]
    folder = folder or os.getenv("SB3_LOGDIR")
    saves = any(name != "stdout" for name in formats)
    if folder is None and not saves:
        return _UnsavedLogger(None, [make_output_format(name, "") for name in formats])
    path = os.fspath(folder) if folder is not None else _temporary_folder()
    with _writable(path):
        os.makedirs(path, exist_ok=True)
    logger = Logger(path, [make_output_format(name, path, resume=resume) for name in formats])
    if saves:
        logger.log(f"Logging to {path}")
    return logger


def make_output_format(_format: str, log_dir: str, log_suffix: str = "", resume: bool = False) -> KVWriter:
    """The writer named ``_format``, its file in ``log_dir``: log.txt, progress.json, progress.csv or event files."""
    if _format not in FORMATS:
        raise ValueError(f"{_format!r} is no log format; {near_matches(_format, FORMATS)}")
    if _format == "stdout":
        return HumanOutputFormat(sys.stdout)
    with _writable(log_dir):
        os.makedirs(log_dir, exist_ok=True)
        if _format in TRACKERS:
            return make_tracker(_format, log_dir, resume)
        if _format == "tensorboard":
            return TensorBoardOutputFormat(log_dir, resume)
        if _format == "log":
            return HumanOutputFormat(os.path.join(log_dir, f"log{log_suffix}.txt"), resume=resume)
        file = os.path.join(log_dir, f"progress{log_suffix}.{_format}")
        return JSONOutputFormat(file, resume) if _format == "json" else CSVOutputFormat(file, resume)


def configure_logger(
    verbose: int = 0,
    tensorboard_log: str | None = None,
    tb_log_name: str = "",
    reset_num_timesteps: bool = True,
    trackers: Sequence[str] = (),
) -> Logger:
    """The logger that ``learn`` uses when the user set none: a table if ``verbose``, TensorBoard if a folder is given.

    Runs go to ``tensorboard_log/tb_log_name_1``, ``_2``, …; continued training (``reset_num_timesteps=False``) goes to
    the latest of them. ``trackers`` (wandb, mlflow, trackio) go on in its run of theirs then.
    """
    formats = [*(["stdout"] if verbose >= 1 else []), *trackers]
    for name in trackers:
        check_tracker(name)  # before a folder is made
    if tensorboard_log is None:
        return configure(None, formats)
    require_tensorboard()
    latest = get_latest_run_id(tensorboard_log, tb_log_name)
    run = latest + 1 if reset_num_timesteps else latest
    folder = os.path.join(tensorboard_log, f"{tb_log_name}_{run}")
    return configure(folder, [*formats, "tensorboard"], resume=bool(trackers) and not reset_num_timesteps)


def get_latest_run_id(log_path: str = "", log_name: str = "") -> int:
    """The highest N of the entries ``log_name_N`` in ``log_path``; 0 if there are none."""
    folder = Path(log_path)
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    pairs = (name.rpartition("_") for name in names)
    numbers = [int(number) for stem, _, number in pairs if stem == log_name and number.isdecimal()]
    return max(numbers, default=0)


def read_json(filename: str) -> pandas.DataFrame:
    """``progress.json`` as a pandas data frame."""
    return _pandas().read_json(filename, lines=True)


def read_csv(filename: str) -> pandas.DataFrame:
    """``progress.csv`` as a pandas data frame."""
    return _pandas().read_csv(filename, index_col=None, comment="#")


def announce(message: str) -> None:
    """Tell the person at the terminal; used by callbacks whose ``verbose`` asks for it."""
    print(message)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "plot", "reading logs as data frames") from error
    return pandas


def _temporary_folder() -> str:
    return os.path.join(tempfile.gettempdir(), datetime.now().strftime("proximo-%Y-%m-%d-%H-%M-%S-%f"))


@contextmanager
def _writable(folder: str) -> Iterator[None]:
    """Turn a failure to write into ``folder`` into an error of the same type that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        advice = f"cannot write logs into {folder!r} ({reason}); choose a folder that you may write to"
        raise type(error)(error.errno, advice) from error
