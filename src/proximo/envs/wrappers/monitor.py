"""Episode statistics: the ``Monitor`` wrapper, its CSV files, and reading them back.

A file ``*.monitor.csv`` opens with ``#{"t_start": …, "env_id": …}``, then has a column header and one row per
episode: ``r`` (return), ``l`` (length in steps), ``t`` (seconds since the start), and any extra keys.
"""

from __future__ import annotations

import csv
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
import numpy as np

from proximo.data import Array, Info
from proximo.errors import MissingExtraError, ProximoError
from proximo.files.append_only import cut_back, place_in
from proximo.files.budgets import Budgets
from proximo.files.plain_text import parse_json, printable

if TYPE_CHECKING:
    import pandas

__all__ = ["LoadMonitorResultsError", "Monitor", "ResultsWriter", "get_monitor_files", "load_results"]


KEPT_EPISODES = 100
"""Episodes that a state remembers; it must not grow with a training."""


class LoadMonitorResultsError(ProximoError, AssertionError):
    """A folder without readable monitor files."""


class Monitor(gym.Wrapper[Any, Any, Any, Any]):
    """Record return, length and time of each episode; put them in ``info["episode"]`` and, if asked, in a CSV file.

    ``info_keywords`` names keys of the last info, ``reset_keywords`` arguments of ``reset``, to record as well.
    With ``allow_early_resets=False``, resetting before the episode has ended is an error.
    """

    EXT = "monitor.csv"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        filename: str | Path | None = None,
        allow_early_resets: bool = True,
        reset_keywords: tuple[str, ...] = (),
        info_keywords: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        """Arguments:
        env: The environment that is wrapped.
        filename: A CSV file for the episodes, which gets the ending monitor.csv; None writes none.
        allow_early_resets: Whether reset may be called before an episode has ended.
        reset_keywords: Arguments of reset to record as well.
        info_keywords: Keys of the last info to record as well.
        override_existing: Whether a file that is there is replaced; otherwise episodes are added to it.
        """
        super().__init__(env)
        self.t_start, self._started = time.time(), time.monotonic()
        self.results_writer: ResultsWriter | None = None
        if filename is not None:
            self.results_writer = ResultsWriter(
                filename,
                header={"t_start": self.t_start, "env_id": str(env.spec.id if env.spec is not None else None)},
                extra_keys=(*reset_keywords, *info_keywords),
                override_existing=override_existing,
            )
        self.reset_keywords = reset_keywords
        self.info_keywords = info_keywords
        self.allow_early_resets = allow_early_resets
        self.needs_reset = True
        self.rewards: list[float] = []
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.current_reset_info: dict[str, Any] = {}
        self._steps_before_episode = 0

    def reset(self, **kwargs: Any) -> tuple[Any, Info]:
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError(
                "reset before the episode has ended; allow it with Monitor(env, allow_early_resets=True)"
            )
        for key in self.reset_keywords:
            if kwargs.get(key) is None:
                raise ValueError(f"reset() lacks the argument {key!r} that Monitor(reset_keywords=…) is to record")
            self.current_reset_info[key] = kwargs[key]
        self._steps_before_episode += len(self.rewards)
        self.rewards = []
        self.needs_reset = False
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.needs_reset:
            raise RuntimeError("the episode has ended; call reset() before the next step()")
        outcome = self.env.step(action)
        _, reward, terminated, truncated, info = outcome
        self.rewards.append(float(reward))
        if terminated or truncated:
            self._record_episode(info)
        return outcome

    def _record_episode(self, info: Info) -> None:
        self.needs_reset = True
        episode_return, length, seconds = sum(self.rewards), len(self.rewards), time.monotonic() - self._started
        self.episode_returns.append(episode_return)
        self.episode_lengths.append(length)
        self.episode_times.append(seconds)
        episode: Info = {"r": round(episode_return, 6), "l": length, "t": round(seconds, 6)}
        episode.update({key: info[key] for key in self.info_keywords})
        episode.update(self.current_reset_info)
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        info["episode"] = episode

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        state = {
            "rewards": np.array(self.rewards, np.float64),
            "returns": np.array(self.episode_returns[-KEPT_EPISODES:], np.float64),
            "lengths": np.array(self.episode_lengths[-KEPT_EPISODES:], np.int64),
            "times": np.array(self.episode_times[-KEPT_EPISODES:], np.float64),
            "seconds": time.monotonic() - self._started,
            "needs_reset": self.needs_reset,
            "reset_info": dict(self.current_reset_info),
            "steps_before_episode": self._steps_before_episode,
        }
        return state if self.results_writer is None else {**state, "file": self.results_writer.place()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`get_state` gave; time goes on from then, as if nothing lay between.

        Of the episodes before, the latest 100 are remembered; the file has them all.
        """
        self.rewards = state["rewards"].tolist()
        self.episode_returns = state["returns"].tolist()
        self.episode_lengths = state["lengths"].tolist()
        self.episode_times = state["times"].tolist()
        seconds = float(state["seconds"])
        self.t_start, self._started = time.time() - seconds, time.monotonic() - seconds
        self.needs_reset = bool(state["needs_reset"])
        self.current_reset_info = dict(state["reset_info"])
        self._steps_before_episode = int(state["steps_before_episode"])
        if self.results_writer is not None and "file" in state:
            self.results_writer.restore(state["file"])

    def close(self) -> None:
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    @property
    def total_steps(self) -> int:
        """Steps since it was made."""
        return self._steps_before_episode + len(self.rewards)

    def get_total_steps(self) -> int:
        """Steps since it was made."""
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """The return of every episode that ended."""
        return self.episode_returns

    def get_episode_lengths(self) -> list[int]:
        """The steps of every episode that ended."""
        return self.episode_lengths

    def get_episode_times(self) -> list[float]:
        """When each of them ended, in seconds since the start."""
        return self.episode_times


_going_on = ContextVar("going_on", default=False)


@contextmanager
def going_on_with_files() -> Iterator[None]:
    """Monitors made in here append to their files: they belong to environments that replace broken ones."""
    token = _going_on.set(True)
    try:
        yield
    finally:
        _going_on.reset(token)


class ResultsWriter:
    """Append episodes to a monitor file; a name that does not end in ``monitor.csv`` gets that ending.

    A file that is there and to be overridden stays as it is until the first episode is written, so that a training
    that is resumed can go on with it.
    """

    def __init__(
        self,
        filename: str | Path = "",
        header: dict[str, float | str] | None = None,
        extra_keys: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        """Arguments:
        filename: The file, which gets the ending monitor.csv.
        header: What the file's first line tells, such as the time when it began.
        extra_keys: Columns besides return, length and time.
        override_existing: Whether a file that is there is replaced; otherwise episodes are added to it.
        """
        path = Path(filename)
        if not str(filename).endswith(Monitor.EXT):
            path = path / Monitor.EXT if path.is_dir() else Path(f"{filename}.{Monitor.EXT}")
        path = path.resolve()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file_handler = open(path, "a", newline="\n", encoding="utf-8")  # noqa: SIM115, closed by close()
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write the episode statistics to {path}: {error.strerror}; choose another monitor_dir, or none",
            ) from error
        self.logger = csv.DictWriter(self.file_handler, fieldnames=("r", "l", "t", *extra_keys))
        self._header = f"#{json.dumps(header or {})}\n"
        is_new = self.file_handler.tell() == 0
        self._starts_over = override_existing and not _going_on.get() and not is_new
        if is_new:
            self._write_header()

    def _write_header(self) -> None:
        self.file_handler.seek(0)
        self.file_handler.truncate()
        self.file_handler.write(self._header)
        self.logger.writeheader()
        self.file_handler.flush()

    def write_row(self, epinfo: Info) -> None:
        """Add one episode."""
        if self._starts_over:
            self._starts_over = False
            self._write_header()
        self.logger.writerow(epinfo)
        self.file_handler.flush()

    def place(self) -> dict[str, Any]:
        """Where the file ends, for :meth:`restore`."""
        return {"bytes": 0} if self._starts_over else place_in(self.file_handler)

    def restore(self, place: Mapping[str, Any] | Array) -> None:
        """Have the file as it was, whatever has been written since; version 0.1.0 kept all its bytes [length] uint8."""
        if isinstance(place, Mapping):
            self._starts_over = place["bytes"] == 0  # taken before the first episode
            if not self._starts_over:
                cut_back(self.file_handler, place)
            return
        self._starts_over = False
        self.file_handler.seek(0)
        self.file_handler.truncate()
        self.file_handler.write(np.asarray(place, np.uint8).tobytes().decode())
        self.file_handler.flush()

    def close(self) -> None:
        """Close the file."""
        self.file_handler.close()


MAX_HEADER, MAX_COLUMNS = 2**16, 256
MAX_CUT_ROWS = 1000  # a row that a kill cut off is shorter; memory is taken for all its columns


def get_monitor_files(path: str | Path) -> list[str]:
    """The monitor files directly in a folder."""
    return [str(file) for file in sorted(Path(path).glob(f"*{Monitor.EXT}"))]


def load_results(path: str | Path) -> pandas.DataFrame:
    """All episodes of a folder's monitor files in order of time; ``t`` counts from the earliest start."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "plot", "loading monitor files") from error

    files = get_monitor_files(path)
    if not files:
        raise LoadMonitorResultsError(f"no files named *{Monitor.EXT} in {path}; train with a monitor_dir first")
    starts, tables = [], []
    for name in files:
        try:
            start, table = _read_file(Path(name))
            table["t"] += start
        except (csv.Error, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise LoadMonitorResultsError(f"{name} is not a monitor file: {printable(str(error))}") from error
        starts.append(start)
        tables.append(table)
    tables = [table for table in tables if not table.empty]
    if not tables:
        return pandas.DataFrame(columns=["r", "l", "t"]).reset_index()
    episodes = pandas.concat(tables).sort_values("t").reset_index()
    episodes["t"] -= min(starts)
    return episodes


def _read_file(path: Path) -> tuple[float, pandas.DataFrame]:
    """When the file was begun, and its episodes."""
    import pandas

    if not path.is_file():  # a pipe would keep its reader waiting
        raise ValueError("it is no file")
    with path.open(encoding="utf-8", newline="") as file:
        first_line = file.readline(MAX_HEADER + 1)
        if not first_line.startswith("#"):
            raise ValueError("the first line does not start with '#'")
        header = parse_json(first_line[1:].encode(), Budgets(), "its header", strict=False)
        start = header.get("t_start") if isinstance(header, dict) else None
        if not isinstance(start, int | float) or not math.isfinite(start):
            raise ValueError("its header has no time t_start")
        place, rows = file.tell(), csv.reader(file)
        columns = len(next(rows, []))
        if columns > MAX_COLUMNS:
            raise ValueError(f"it has more than {MAX_COLUMNS} columns")
        lengths = Counter(map(len, rows))
        if max(lengths, default=0) > columns:
            raise ValueError("it has rows longer than its columns")
        if sum(count for length, count in lengths.items() if 0 < length < columns) > MAX_CUT_ROWS:
            raise ValueError(f"it has more than {MAX_CUT_ROWS} rows shorter than its columns")
        file.seek(place)
        return float(start), pandas.read_csv(file, index_col=None)
