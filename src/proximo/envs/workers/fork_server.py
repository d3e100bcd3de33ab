"""Signals that end a training, or warn of its end, are for the process that trains.

Schedulers, systemd and terminals send them to all processes at once, and the one that trains needs its workers to
finish an iteration and to ask for their state. So workers, and the server that forks them, do nothing when they come.
The server imports this module before it forks anything; no other process is changed by that.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name))


def leave_signals_to_parent() -> None:
    """In a process that ends with its parent. Not SIG_IGN, which programs that an environment starts would inherit."""
    for number in _SIGNALS:
        signal.signal(number, _do_nothing)


def _do_nothing(signal_number: int, frame: FrameType | None) -> None:
    pass


def _handle_as_before() -> None:
    for number, handler in _BEFORE.items():
        signal.signal(number, handler)


# the server's command line names what it imports; what it forked has the same one, and this module already. A process
# of the user's, forked by a server that was not told to import this, must stay as it is
if any("multiprocessing.forkserver" in word and __name__ in word for word in sys.orig_argv):
    _BEFORE = {number: signal.getsignal(number) for number in _SIGNALS}  # of nohup, say, an ignored SIGHUP
    leave_signals_to_parent()
    os.register_at_fork(after_in_child=_handle_as_before)  # processes that the user's own code starts with this server
