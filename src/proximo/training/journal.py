"""What happened in a run, a JSON line each: its warnings, how it ended, and where the time went."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from proximo.errors import ModelFileError
from proximo.files.budgets import Budgets
from proximo.files.plain_text import bounded_lines, parse_json
from proximo.training.callback_base import BaseCallback

ACTIVITIES = ("rollouts", "updates", "checkpoints", "evaluation", "film", "other")
SECONDS_BETWEEN_TIMES = 60.0
MOST_EVENTS = 2**16  # that are read of a journal
MOST_BYTES_OF_EVENTS = 2**24


class Journal(BaseCallback):
    """Writes ``journal.jsonl`` of a run folder while a session trains, evaluates and films::

        with Journal(folder.journal) as journal:
            model.learn(1_000_000, callback=[journal, checkpoints])

    A line has the fields ``event`` (start, warning, time, end), ``time`` (UTC) and the facts of the event.
    ``time`` and ``end`` hold the seconds of the session by what they were spent on; as a callback the journal learns
    of rollouts and updates, and first in the list it counts what others do between iterations as checkpoints.
    A session that was killed has no ``end``.
    """

    state_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self.ending = "finished"
        self._activity = "other"
        self._since = self._last_written = time.monotonic()

    def write(self, event: str, **facts: Any) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"event": event, "time": now, **facts}, default=str) + "\n")

    def warn(self, text: str) -> None:
        self.write("warning", text=text)

    @contextmanager
    def spending(self, activity: str) -> Iterator[None]:
        """Count the time of a block for an activity alone, also within another one."""
        before = self._activity
        self._turn_to(activity)
        try:
            yield
        finally:
            self._turn_to(before)

    def _turn_to(self, activity: str) -> None:
        now = time.monotonic()
        self.seconds[self._activity] += now - self._since
        self._activity, self._since = activity, now

    def _times(self) -> dict[str, Any]:
        self._turn_to(self._activity)
        return {"steps": self.num_timesteps, "seconds": {name: round(each, 3) for name, each in self.seconds.items()}}

    def _on_rollout_start(self) -> None:
        self._turn_to("rollouts")

    def _on_rollout_end(self) -> None:
        self._turn_to("updates")

    def _between_iterations(self) -> bool:
        self._turn_to("checkpoints")
        if self._since - self._last_written > SECONDS_BETWEEN_TIMES:
            self._last_written = self._since
            self.write("time", **self._times())
        return True

    def _on_training_end(self) -> None:
        self._turn_to("other")

    def __enter__(self) -> Self:
        self._since = self._last_written = time.monotonic()
        self.write("start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.write("end", ending=self.ending, **self._times())
        else:
            self.write("end", ending="failed", error=f"{type(error).__name__}: {error}", **self._times())


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal that can be read, and none where there is no journal: a killed run may leave half a line.

    Every line has an ``event`` that is text; nothing else is checked. Of times that follow each other within a session,
    each of which counts from its start, the last stands for all: weeks have many.
    """
    if not path.is_file():
        return []
    events: list[dict[str, Any]] = []
    left = MOST_BYTES_OF_EVENTS
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in bounded_lines(stream, str(path)):
            try:
                entry = parse_json(line.encode(), Budgets(), strict=False)
            except ModelFileError:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
                continue
            if events and entry["event"] == events[-1]["event"] == "time":
                events.pop()
            else:
                left -= len(line)
            events.append(entry)
            if len(events) > MOST_EVENTS or left < 0:
                raise ModelFileError(f"{path} holds more events than those of a run; shorten or remove it")
    return events
