"""Saving and ending a training well when the scheduler or the user asks for it, by a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, ClassVar

from proximo.training.callback_base import BaseCallback, counters_only
from proximo.training.checkpoints import PeriodicCheckpoints

SECONDS_TO_END = 4.5
"""After this long a process that was asked to end does so at once: who asked will not wait for much longer."""
LONG_ITERATION = 1.5  # seconds; a shorter one is waited for


def _present(name: str) -> tuple[int, ...]:
    """A signal, where the system has it."""
    return (getattr(signal, name),) if hasattr(signal, name) else ()


class StopOnSignal(BaseCallback):
    """Ends the training when SIGINT, SIGTERM or SIGHUP comes, with a checkpoint from which it can go on exactly::

        with StopOnSignal(checkpoints) as stop:
            model.learn(1_000_000, callback=[checkpoints, stop])
        sys.exit(stop.exit_code)

    The iteration under way is finished if it is a short one. A long one is given up: weights stay the same while a
    rollout is collected, so the state before it, taken in advance, is a checkpoint of this moment. ``expects_long`` is
    asked before each rollout whether something in it, such as an evaluation, may take long. In boundary mode the newest
    boundary is what the training goes on from. A second signal, or ``seconds_to_end``, end the process at once; files
    are written whole or not at all even then. A SIGHUP that was ignored before, as under ``nohup``, stays so.

    SIGUSR1, by which schedulers warn of an end to come, saves a checkpoint in the same way, and the training goes on.
    """

    SIGNALS: ClassVar[tuple[int, ...]] = (signal.SIGINT, signal.SIGTERM, *_present("SIGHUP"))
    SAVING_SIGNALS: ClassVar[tuple[int, ...]] = _present("SIGUSR1")

    def __init__(
        self,
        checkpoints: PeriodicCheckpoints | None = None,
        expects_long: Callable[[], bool] = lambda: False,
        seconds_to_end: float = SECONDS_TO_END,
    ) -> None:
        """Arguments:
        checkpoints: What saves when a signal comes; None saves nothing.
        expects_long: Asked before each rollout whether something in it may take long.
        seconds_to_end: Seconds after a signal when the process ends in any case.
        """
        super().__init__()
        self.checkpoints = checkpoints
        self.expects_long = expects_long
        self.seconds_to_end = seconds_to_end
        self.signal_number: int | None = None
        self._save_asked = False
        self._before_rollout: dict[str, Any] | None = None  # the training's state, while an iteration may be long
        self._iteration_started: float | None = None
        self._previous: dict[int, Any] = {}
        self._watchdog: threading.Timer | None = None

    @property
    def exit_code(self) -> int:
        """What the shell expects of a process that a signal ended: 130 for SIGINT, 143 for SIGTERM; 0 without one."""
        return 0 if self.signal_number is None else 128 + self.signal_number

    def _between_iterations(self) -> bool:
        now, started = time.monotonic(), self._iteration_started
        is_long = started is None or now - started > LONG_ITERATION or self.expects_long()
        self._iteration_started = now
        signal_number, is_long = self.model.highest_of_all(self.signal_number or 0, is_long)
        self._take_over(signal_number)
        takes = self.checkpoints is not None and not self.checkpoints.boundary and is_long
        self._before_rollout = self.checkpoints.training_state() if takes else None  # type: ignore[union-attr]
        self._save_asked = False  # the checkpoints, which come before, have saved
        return self.signal_number is None

    def _take_over(self, signal_number: float) -> None:
        """A signal to one of the processes that train together ends all of them."""
        if self.signal_number is None and signal_number:
            self.signal_number = int(signal_number)

    @counters_only
    def _on_step(self) -> bool:
        if self._save_asked and self.checkpoints is not None and self._before_rollout is not None:
            self._save_asked = False
            self.checkpoints.save_state(self._before_rollout)  # now: the end of a long iteration may come too late
        if self.signal_number is None:
            return True
        waits = self.checkpoints is not None and not self.checkpoints.boundary and self._before_rollout is None
        return waits  # for the end of a short iteration, where the checkpoint is saved

    def _on_rollout_end(self) -> None:
        self._before_rollout = None  # the update will change the weights: from here on the iteration is finished

    def _on_training_end(self) -> None:
        self._take_over(self.model.highest_of_all(self.signal_number or 0)[0])
        if self.signal_number is not None and self.checkpoints is not None and self._before_rollout is not None:
            self.checkpoints.save_state(self._before_rollout)

    def _receive(self, signal_number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            end_at_once(128 + signal_number)
        self.signal_number = signal_number
        self._watchdog = threading.Timer(self.seconds_to_end, end_at_once, (128 + signal_number,))
        self._watchdog.daemon = True
        self._watchdog.start()
        if self.checkpoints is not None:
            self.checkpoints.ask_for_save(stop=True)

    def _receive_warning(self, signal_number: int, frame: FrameType | None) -> None:
        self._save_asked = True
        if self.checkpoints is not None:
            self.checkpoints.ask_for_save()

    def __enter__(self) -> StopOnSignal:
        handlers = dict.fromkeys(self.SIGNALS, self._receive)
        handlers |= dict.fromkeys(self.SAVING_SIGNALS, self._receive_warning)
        self._previous = handle_signals(handlers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._watchdog is not None:
            self._watchdog.cancel()


_interrupted = False  # by a Ctrl-C whose KeyboardInterrupt may have been dropped


def keep_interrupts() -> None:
    """For a program that trains: no Ctrl-C before the training gets lost.

    Python drops a KeyboardInterrupt that is raised in a callback from C, of which there are many while kernels are
    compiled; then :func:`handle_signals` raises it again.
    """
    global _interrupted
    _interrupted = False
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where Ctrl-C is to be ignored
    if by_default and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def handle_signals(handlers: Mapping[int, Callable[[int, FrameType | None], None]]) -> dict[int, Any]:
    """Handle signals, but for a SIGHUP that was ignored before, as under ``nohup``; what handled them until now."""
    global _interrupted
    if _interrupted:
        _interrupted = False
        raise KeyboardInterrupt
    ignored = {number for number in _present("SIGHUP") if signal.getsignal(number) is signal.SIG_IGN}
    return {number: signal.signal(number, handler) for number, handler in handlers.items() if number not in ignored}


def ignore_scheduler_warnings() -> None:
    """For a program that trains: before and after that a SIGUSR1 has nothing to save, and would end the process."""
    for number in StopOnSignal.SAVING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def end_at_once(exit_code: int) -> None:
    """End the process without closing anything; worker processes notice, and end too."""
    with suppress(OSError):  # there is no terminal
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NONBLOCK)
        os.write(terminal, b"\x1b[?25h")  # a progress display may have hidden the cursor
    os._exit(exit_code)
