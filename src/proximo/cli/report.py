"""``proximo report``: runs as one HTML page, or served live while they train."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from proximo.cli.algorithms import algorithm_title
from proximo.cli.command import flag, parse
from proximo.cli.flags import Count, OptionalPath, OptionalText, RunFolders, default_is
from proximo.cli.plot import runs_by_label
from proximo.cli.runs import Run, equal_seeds
from proximo.cli.train import SESSION_FLAGS, Train
from proximo.reports.content import Group, Member, report_content
from proximo.reports.page import embedded_film, report_page
from proximo.reports.results import RunResult, read_run, runs_within

SUMMARY = """Write one HTML page about runs: results, curves to hover and zoom, film, configuration and what differs,
speed, warnings, versions, and the commands that repeat them. The page needs no network and no other file.
--serve shows the runs of a folder in a browser while they train."""
EXAMPLES = (
    "proximo report runs/CartPole-v1-*",
    "proximo report RUN RUN -o report.html --title 'PPO and A2C'",
    "proximo report --serve runs",
    "proximo report --serve runs --port 9000",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Which runs to report on, and where to."""

    runs: Annotated[RunFolders, tyro.conf.arg(metavar="[RUN …]", help_behavior_hint="(required without --serve)")] = (
        flag("Run folders, as made by proximo train, or folders that hold such.", ())
    )
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"]), default_is("report.html")] = flag(
        "File of the page.", None
    )
    title: Annotated[OptionalText, default_is("what was trained")] = flag("Title of the page.", None)
    serve: Annotated[OptionalPath, default_is("write a file")] = flag(
        "A folder of runs to show in a browser, refreshed while they train, until Ctrl-C.", None
    )
    host: str = flag(
        "Address that --serve listens at; any other than this lets other machines read the runs.", "127.0.0.1"
    )
    port: Count = flag("Port of --serve; 0 takes a free one.", 8008)


def run(words: Sequence[str]) -> int:
    arguments = parse(Report, "report", SUMMARY, EXAMPLES, words)
    if arguments.serve is not None:
        return serve(arguments)
    from proximo.cli.console import output, shown_path
    from proximo.files.atomic import write_whole

    if arguments.host != "127.0.0.1" or arguments.port != 8008:
        raise ValueError("--host and --port are for --serve; leave them out, or give --serve RUNS_DIR")
    runs = Run.open_all(found_runs(arguments.runs))
    path = arguments.output or Path("report.html")
    page = report_page(content_of(runs, embedded_film, title=arguments.title))
    write_whole(path, page)
    output().print(shown_path(path), markup=False)
    return 0


def serve(arguments: Report) -> int:
    from proximo.cli.live import serve_until_interrupted

    if arguments.runs or arguments.output is not None or arguments.title is not None:
        raise ValueError("--serve shows all runs of its folder, and takes no runs, -o or --title; leave them out")
    if not 0 <= arguments.port < 2**16:
        raise ValueError(f"--port is {arguments.port}; expected 0 to 65535")
    if arguments.serve is None or not arguments.serve.is_dir():
        raise ValueError(f"--serve is {arguments.serve}, no folder; expected one that holds runs, such as runs")
    return serve_until_interrupted(arguments.serve, arguments.host, arguments.port)


def found_runs(paths: Iterable[Path]) -> list[Path]:
    """The runs at these paths; a folder that is no run stands for the runs within it."""
    found: list[Path] = []
    for path in paths:
        within = runs_within(path) if path.is_dir() else []
        found += within or [path]  # Run.open says what is wrong with it
    return found


def content_of(
    runs: Sequence[Run],
    film: Callable[[RunResult], tuple[str | None, str]],
    title: str | None = None,
    read: Callable[[Run], RunResult] = lambda run: read_run(run.folder),
) -> dict[str, object]:
    """The content of a report on these runs; ``film`` gives the address of a run's film, or why there is none."""
    labelled = runs_by_label(runs)
    groups = [
        Group(label, algorithm_title(members[0].config.algo), [_member(run, read(run), film) for run in members])
        for label, members in labelled.items()
    ]
    notes = [text for members in labelled.values() if (text := equal_seeds(members))]
    return report_content(groups, title, [*notes, *uneven_notes(groups)])


def _member(run: Run, result: RunResult, film: Callable[[RunResult], tuple[str | None, str]]) -> Member:
    address, note = film(result)
    return Member(result, run.folder.path.resolve().name, repeating_command(run), address, note)


def uneven_notes(groups: Sequence[Group]) -> list[str]:
    """What a reader must know of means over runs that are not equally long."""
    notes = []
    for group in groups:
        steps = [member.result.steps for member in group.members]
        if len(set(steps)) > 1:
            notes.append(
                f"{group.label}: runs are at {min(steps):,} to {max(steps):,} steps; the mean curve ends where the "
                "shortest does, and the table compares them as they are"
            )
    return notes


def repeating_command(run: Run) -> str:
    """The command that trains what the run trained, with what it was asked to do besides."""
    from proximo.cli.console import shown_path

    defaults = {item.name: item.default for item in fields(Train)}
    words = ["proximo", "train", "--preset", shown_path(run.folder.path)]
    for name in SESSION_FLAGS:
        value = run.config.session.get(name)
        if value is not None and value != defaults[name]:
            flag = f"--{name.replace('_', '-')}"
            for each in value if isinstance(value, list) else [value]:
                words += [flag] if each is True else [flag, str(each)]
    return shlex.join(words)
