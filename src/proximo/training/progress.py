"""The live line under a training: a bar, steps per second, time elapsed and left, the latest mean return."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class ProgressDisplay:
    """Shows the way to ``total_steps``: a live bar on a terminal, elsewhere a plain line now and then.

    ``unit`` says what is counted, ``steps_before`` how many of them were done when it starts. A ``transient`` display
    vanishes at its end, and shows nothing but the live bar.

    Nothing refreshes it in the background: :meth:`update` redraws it, at most ten times a second.
    While the live bar is shown, what is printed goes above it; without ``takes_prints``, to where it went before.
    """

    SECONDS_BETWEEN_PLAIN_LINES = 10.0
    SECONDS_BETWEEN_DRAWINGS = 0.1  # a drawing takes as long as hundreds of small steps
    _UPDATES_FOR_SPEED = 600  # a minute of ten updates per second: several cycles of collecting and learning

    def __init__(
        self,
        total_steps: int,
        description: str = "training",
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "steps",
        transient: bool = False,
        takes_prints: bool = True,
        steps_before: int = 0,
    ) -> None:
        self.total_steps = max(total_steps, 1)
        self.description = description
        self._console = console
        self._clock = clock
        self.unit = unit
        self.transient = transient
        self.takes_prints = takes_prints
        self._steps = steps_before
        self._mean_return: float | None = None
        self._started_at = 0.0
        self._next_plain_line = 0.0
        self._next_drawing = 0.0
        self._history: deque[tuple[float, int]] = deque(maxlen=self._UPDATES_FOR_SPEED)
        self._live: Progress | None = None
        self._stop_live: Callable[[], object] | None = None

    def start(self) -> None:
        from rich.console import Console

        self._console = self._console or Console()
        self._started_at = self._clock()
        self._next_plain_line = self._started_at + self.SECONDS_BETWEEN_PLAIN_LINES
        self._history.append((self._started_at, self._steps))
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = _live_progress(self._console, self.transient, self.takes_prints)
            self._live.add_task(self.description, total=self.total_steps, completed=self._steps, status="")
            # also run when the display is dropped or the program ends: a lost display would leave the cursor hidden
            self._stop_live = weakref.finalize(self, self._live.stop)
            self._live.start()

    def update(self, steps: int, mean_return: float | None = None) -> None:
        """Tell how many of the steps are done, and the mean return of the latest episodes if known."""
        now = self._clock()
        self._steps = steps
        self._mean_return = mean_return
        self._history.append((now, steps))
        if self._live is not None:
            if now >= self._next_drawing:
                self._next_drawing = now + self.SECONDS_BETWEEN_DRAWINGS
                self._draw()
        elif now >= self._next_plain_line:
            self._next_plain_line = now + self.SECONDS_BETWEEN_PLAIN_LINES
            self._print_plain_line()

    def stop(self) -> None:
        """Leave the last state on the screen and give the terminal back."""
        if self._stop_live is not None:
            self._draw()
            self._stop_live()
        else:
            self._print_plain_line()
        self._live, self._stop_live = None, None

    def _draw(self) -> None:
        if self._live is not None:
            completed = min(self._steps, self.total_steps)
            self._live.update(self._live.task_ids[0], completed=completed, status=self.status(), refresh=True)

    def status(self) -> str:
        """Speed, times and return, as shown beside the bar."""
        first_time, first_steps = self._history[0]
        last_time, last_steps = self._history[-1]
        speed = (last_steps - first_steps) / max(last_time - first_time, 1e-9)
        parts = [f"{speed:,.0f} {self.unit}/s", f"{clock_time(last_time - self._started_at)} elapsed"]
        if speed > 0 and self._steps < self.total_steps:
            parts.append(f"{clock_time((self.total_steps - self._steps) / speed)} left")
        if self._mean_return is not None:
            parts.append(f"return {self._mean_return:.1f}")
        return "  ".join(parts)

    def _print_plain_line(self) -> None:
        if self.transient or self._console is None:
            return
        percent = min(100 * self._steps // self.total_steps, 100)
        line = f"{self.description} {self._steps:,} of {self.total_steps:,} {self.unit} ({percent} %)  {self.status()}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> ProgressDisplay:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _live_progress(console: Console, transient: bool, takes_prints: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    def text(template: str) -> TextColumn:
        return TextColumn(template, markup=False, table_column=Column(no_wrap=True))

    return Progress(
        text("{task.description}"),
        BarColumn(bar_width=None),
        text("{task.percentage:>3.0f} %"),
        text("{task.fields[status]}"),
        console=console,
        auto_refresh=False,
        redirect_stdout=takes_prints,
        redirect_stderr=takes_prints,
        expand=True,
        transient=transient,
    )


def clock_time(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some.

    >>> clock_time(65), clock_time(3 * 3600 + 62)
    ('1:05', '3:01:02')
    """
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
