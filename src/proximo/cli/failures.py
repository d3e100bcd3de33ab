"""Errors of a training: their traceback is kept, in the run's folder and, where it is a user's code, on the screen."""

from __future__ import annotations

import contextlib
import traceback
from types import TracebackType

from proximo.cli.main import user_errors
from proximo.training.run_folder import RunFolder


def keep_traceback(error: Exception, folder: RunFolder) -> None:
    """Write an error's traceback to ``error.txt``, and have it shown if its one line would hide a user's code."""
    text = "".join(traceback.format_exception(error))
    if isinstance(error, user_errors()) and raised_in_environment(error):
        error.add_note(text.rstrip())
    with contextlib.suppress(OSError):  # a full disk may be the error itself
        folder.error.write_text(text, encoding="utf-8")
        error.add_note(f"the traceback is in {folder.error}")


def raised_in_environment(error: BaseException) -> bool:
    """Whether an error came from below the library's vector environments: from an environment or its wrappers."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(_innermost(error))]
    own = [place for place, module in enumerate(modules) if module.partition(".")[0] == "proximo"]
    return bool(own) and own[-1] < len(modules) - 1 and modules[own[-1]].startswith("proximo.envs.")


def _innermost(error: BaseException) -> TracebackType | None:
    """The traceback of what an error was raised from, if it was."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error.__traceback__
