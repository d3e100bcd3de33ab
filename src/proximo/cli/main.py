"""Entry of the command line: finds the command, runs it, and turns errors into one clear line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from proximo.cli.console import errors, output, show_compiling, show_error, show_everything, show_warnings_as_lines
from proximo.errors import ProximoError, near_matches

# imported when run: `proximo --help` does not wait for PyTorch
COMMANDS = {
    "train": "Train an agent; everything about it goes into a run folder.",
    "tune": "Search for better hyperparameters, from a preset to a preset.",
    "presets": "List the environments that there are tuned hyperparameters for.",
    "evaluate": "Play episodes with a trained agent and report the return with its interval.",
    "watch": "Film a trained agent, or open a window.",
    "plot": "Draw learning curves with intervals over seeds.",
    "report": "Write one HTML page about runs, or show them live in a browser.",
    "compare": "Compare groups of runs: aggregates with bootstrap intervals.",
    "bench": "Measure the speed against Stable-Baselines3.",
    "inspect": "Show what is in a model file, without running anything of it.",
    "export": "Write a policy as an ONNX file or a PyTorch program, which run without Proximo.",
    "hub": "Push a trained agent to the Hugging Face hub, or pull one from there.",
    "convert": "Turn a model file of Stable-Baselines3 into one of Proximo, or the other way round.",
}
EXAMPLES = """\
  proximo train CartPole-v1
  proximo evaluate runs/CartPole-v1-ppo-1-20260102-030405
  proximo watch runs/CartPole-v1-ppo-1-20260102-030405
  proximo plot runs/CartPole-v1-*"""

USER_ERROR = 2
INTERRUPTED = 130
READER_GONE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code: 0, 2 for an error, 130 for Ctrl-C, 141 for a closed pipe."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    show_warnings_as_lines()
    show_compiling()
    show_everything(debug)
    try:
        return run_command(words)
    except (BrokenPipeError, SystemExit) as end:
        # rich ends the program where it cannot print; so do --help and words that cannot be read, with another context
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        return reader_gone()
    except user_errors() as error:
        if debug:
            raise
        show_error(describe(error), *getattr(error, "__notes__", ()))
        return USER_ERROR
    except KeyboardInterrupt:
        errors().print("interrupted")
        return INTERRUPTED


def run_command(words: Sequence[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        show_help()
        return 0
    if name == "--version":
        show_version()
        return 0
    if name not in COMMANDS:
        raise ValueError(f"there is no command {name!r}; {near_matches(name, COMMANDS)}")
    code: int = import_module(f"proximo.cli.{name}").run(words[1:])
    return code


def user_errors() -> tuple[type[Exception], ...]:
    """What is shown as one line; gymnasium's own errors among it, without importing it for the sake of others."""
    known = (ProximoError, ValueError, OSError, NotImplementedError)
    module = sys.modules.get("gymnasium.error")
    return known if module is None else (*known, module.Error)


def describe(error: Exception) -> str:
    """An error's message; of system errors the reason and the file, unless the reason names it."""
    if isinstance(error, OSError) and error.strerror:
        is_named = error.filename is None or str(error.filename) in error.strerror
        return error.strerror if is_named else f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def reader_gone() -> int:
    """The exit code for ``proximo … | head``; the interpreter, which flushes at the end, gets a place to write to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def show_version() -> None:
    from proximo.version import __version__

    output().print(f"proximo {__version__}")


def show_help() -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, summary in COMMANDS.items():
        table.add_row(f"  [bold cyan]{name}[/]", summary)
    console = output()
    console.print("usage: proximo COMMAND …   (proximo COMMAND --help tells its options)\n")
    console.print("[bold]Commands[/]")
    console.print(table)
    console.print(f"\n[bold]Examples[/]\n{EXAMPLES}")
    console.print(
        "\n--version prints the version; --debug shows the traceback of an error, and all that libraries print."
    )
