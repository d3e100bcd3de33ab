"""HTML pages of reports: style, script and content in one file that asks nobody for anything.

Whatever comes from a run folder enters a page in one of two ways: as JSON in a block of data, which the script puts
into text nodes, or through :func:`html.escape`. The policy of the page names the hashes of its own style and script,
so a browser runs nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from proximo.reports.results import RunResult

LARGEST_FILM = 24 * 2**20
FILM_TYPES = {".gif": ("image/gif", (b"GIF87a", b"GIF89a"), 0), ".mp4": ("video/mp4", (b"ftyp",), 4)}
"""By suffix: the media type, and how such a file begins, from which byte on."""


def static_file(name: str) -> str:
    return resources.files("proximo.reports").joinpath("static", name).read_text(encoding="utf-8")


def report_page(content: dict[str, Any]) -> str:
    """A page that holds its content, and works without a network."""
    data = f'<script type="application/json" id="content">{as_json(content)}</script>'
    return _page(content["title"], static_file("report.html") + data, ("chart.js", "report.js"))


def live_report_page(title: str, address: str) -> str:
    """A page that fetches its content from ``address`` of its own server, again and again."""
    back = '<p class="top small"><a href="/">all runs</a></p>'
    return _page(title, back + static_file("report.html"), ("chart.js", "report.js"), address)


def live_list_page(title: str, address: str) -> str:
    """A page that lists the runs that ``address`` tells of."""
    return _page(title, static_file("runs.html"), ("chart.js", "runs.js"), address)


def as_json(content: Any) -> str:
    """JSON for a block of data in HTML: no NaN, and nothing in it ends the block or begins a comment."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _script(names: tuple[str, ...]) -> str:
    return '"use strict";\n' + "\n".join(map(static_file, names))


def _page(title: str, body: str, scripts: tuple[str, ...], live: str = "") -> str:
    """``live`` is the address that a page of the live view fetches its content from."""
    attributes = f' data-content="{html.escape(live)}"' if live else ""
    connections = "'self'" if live else "'none'"
    sources = "'self'" if live else "data:"
    style, script = static_file("report.css"), _script(scripts)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            f"img-src {sources} data:" if live else "img-src data:",  # the icon is data
            f"media-src {sources}",
            f"connect-src {connections}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return static_file("page.html").format(
        policy=policy, title=html.escape(title), style=style, attributes=attributes, body=body, script=script
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded_film(result: RunResult) -> tuple[str | None, str]:
    """The address of a run's film as data, or None and why not; both empty where there is no film."""
    path = result.film
    if path is None:
        return None, ""
    if fault := film_fault(result, path):
        return None, fault
    return f"data:{FILM_TYPES[path.suffix][0]};base64,{base64.b64encode(path.read_bytes()).decode()}", ""


def film_fault(result: RunResult, path: Path) -> str:
    """What keeps a file of a run from being shown as a film; empty for a film."""
    if result.folder.leads_out(path):
        return f"{path.name} leads out of the run folder"
    if (size := path.stat().st_size) > LARGEST_FILM:
        return f"{path.name} has {size >> 20} MiB and is left out, to keep the page small"
    _, beginnings, offset = FILM_TYPES[path.suffix]
    with path.open("rb") as stream:
        is_film = stream.read(16)[offset:].startswith(beginnings)
    return "" if is_film else f"{path.name} is no film"


def address_of(route: str, **query: str | list[str]) -> str:
    """A path of the live view with its query."""
    pairs = [(name, each) for name, value in query.items() for each in ([value] if isinstance(value, str) else value)]
    return route + "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)
