"""rllte's stopwatch."""

import time


class Timer:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()

    def reset(self) -> tuple[float, float]:
        """Seconds since the last call, and since the start."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before, self._last - self._start

    def total_time(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start
