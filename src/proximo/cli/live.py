"""The live view of ``proximo report --serve``: the runs of a folder, read again when their files have changed."""

from __future__ import annotations

import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any

from proximo.cli.algorithms import algorithm_title
from proximo.cli.console import output, shown_path
from proximo.cli.report import content_of
from proximo.cli.runs import Run
from proximo.reports.content import NONE, shown
from proximo.reports.page import FILM_TYPES, address_of, film_fault, live_list_page, live_report_page
from proximo.reports.results import UNREADABLE, RunResult, files_of, read_run, runs_within
from proximo.reports.server import Answer, LiveServer, is_local, json_answer, page_answer


class LiveView:
    """What a browser sees of a folder of runs; runs are named by their path within it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[Any, RunResult]] = {}

    @property
    def title(self) -> str:
        return shown(self.folder.resolve().name)

    def answer(self, route: str, query: dict[str, list[str]]) -> Answer | None:
        if route == "/":
            return page_answer(live_list_page(self.title, "/runs"))
        if route == "/runs":
            return json_answer(self._list())
        runs = self.runs()  # an address only chooses among these, each once
        names = list(dict.fromkeys(query.get("run", [])))
        paths = [runs[name] for name in names if name in runs]
        if not paths or len(paths) != len(names):
            return None
        if route == "/report":
            return page_answer(live_report_page(", ".join(names), address_of("/content", run=names)))
        if route == "/content":
            return self._content(paths)
        if route == "/film":
            return self._film(paths[0])
        return None

    def runs(self) -> dict[str, Path]:
        """The run folders that there are now, by name."""
        return {path.relative_to(self.folder).as_posix(): path for path in runs_within(self.folder)}

    def read(self, run: Run) -> RunResult:
        """A run as it is now, read again only when a file of it has changed."""
        path = run.folder.path
        with self._lock:
            signature = [
                (file.name, (status := file.stat()).st_mtime_ns, status.st_size) for file in files_of(run.folder)
            ]
            if path not in self._read or self._read[path][0] != signature:
                self._read[path] = (signature, read_run(run.folder))
            return self._read[path][1]

    def _content(self, paths: list[Path]) -> Answer:
        try:
            return json_answer(content_of([Run.open(path) for path in paths], self._film_address, read=self.read))
        except UNREADABLE as error:
            text = f"{error}\n".encode(errors="replace")
            return Answer("text/plain; charset=utf-8", text, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _film_address(self, result: RunResult) -> tuple[str | None, str]:
        film = result.film
        if film is None:
            return None, ""
        if fault := film_fault(result, film):
            return None, fault
        name = result.folder.path.relative_to(self.folder).as_posix()
        return address_of("/film", run=name, changed=str(film.stat().st_mtime_ns)), ""

    def _film(self, path: Path) -> Answer | None:
        try:
            result = self.read(Run.open(path))
        except UNREADABLE:
            return None
        film = result.film
        if film is None or film_fault(result, film):
            return None
        return Answer(FILM_TYPES[film.suffix][0], film.read_bytes())

    def _list(self) -> dict[str, Any]:
        runs = [self._row(name, path) for name, path in self.runs().items()]
        return {"title": self.title, "runs": runs}

    def _row(self, name: str, path: Path) -> dict[str, str]:
        row = dict.fromkeys(("steps", "training", "evaluation", "speed", "note", "address"), "")
        try:
            run = Run.open(path)
            result = self.read(run)
            address = address_of("/report", run=name)  # a name that is no text has none
        except UNREADABLE as error:  # one damaged run must not hide the others
            return {**row, "name": shown(name), "state": "unreadable", "note": shown(str(error))}
        evaluation, planned = result.evaluation, result.planned_steps
        left = planned is not None and result.steps < planned
        steps = f"{result.steps:,} of {planned:,}" if left else f"{result.steps:,}"
        return {
            "name": name,
            "note": shown(f"{algorithm_title(run.config.algo)} on {run.config.env}, seed {run.config.seed}"),
            "address": address,
            "steps": steps,
            "training": NONE if result.training_return is None else f"{result.training_return:.2f}",
            "evaluation": NONE if evaluation is None else f"{evaluation.interval.mean:.2f}",
            "speed": NONE if result.speed is None else f"{result.speed:,.0f}",
            "state": shown(result.status),
        }


def serve_until_interrupted(folder: Path, host: str, port: int) -> int:
    with LiveServer(LiveView(folder), host, port) as server:
        output().print(
            f"showing the runs of {shown_path(folder)} at {server.address} until Ctrl-C", markup=False, soft_wrap=True
        )
        if not is_local(host):
            output().print(f"[yellow]{host} is open to other machines:[/] whoever reaches it can read these runs")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            output().print("stopped")
    return 0
