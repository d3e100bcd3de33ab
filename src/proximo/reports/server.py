"""The live view's server: answers GET with pages, their content and films, and knows nothing of paths.

An address names a route and, in its query, names of runs. A view looks these up among the runs that it found by itself,
so no part of an address ever reaches the file system.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

MOST_QUERY_FIELDS = 200


@dataclass(frozen=True)
class Answer:
    """What goes back to the browser."""

    media_type: str
    content: bytes
    status: HTTPStatus = HTTPStatus.OK


class View(Protocol):
    """What is shown."""

    def answer(self, route: str, query: dict[str, list[str]]) -> Answer | None:
        """The answer to a GET of ``route``; None for what there is not."""


def page_answer(page: str) -> Answer:
    return Answer("text/html; charset=utf-8", page.encode("utf-8"))


def json_answer(content: Any) -> Answer:
    return Answer("application/json", json.dumps(content, allow_nan=False).encode("utf-8"))


class LiveServer(ThreadingHTTPServer):
    """Serves a view at a host and port; port 0 takes a free one."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name != "nt"  # there it would let two servers share a port

    def __init__(self, view: View, host: str, port: int) -> None:
        self.view = view
        self.host = host
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:  # taken, not ours to take, or no address of this machine
            raise OSError(error.errno, f"cannot listen at {host}, port {port}: {error.strerror}") from error

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.server_address[1]}/"

    def trusts(self, host: str | None) -> bool:
        """Whether a request may name this host.

        A page of another site can let its own name point to 127.0.0.1; the browser would then hand it our answers, but
        the request still carries that name. A server for other machines cannot know its names.
        """
        if not is_local(self.host):
            return True
        name = (host or "").rpartition(":")[0] if ":" in (host or "").rpartition("]")[2] else host or ""
        return name in ("localhost", "127.0.0.1", "[::1]", self.host)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version = "proximo"
    sys_version = ""
    timeout = 30  # seconds for a request to arrive

    def do_GET(self) -> None:
        if not self.server.trusts(self.headers.get("Host")):
            return self._send(_refusal(HTTPStatus.MISDIRECTED_REQUEST))
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=MOST_QUERY_FIELDS, errors="strict")
        except ValueError:
            return self._send(_refusal(HTTPStatus.BAD_REQUEST))
        self._send(self.server.view.answer(parts.path, query) or _refusal(HTTPStatus.NOT_FOUND))

    def _refuse_method(self) -> None:
        self.close_connection = True  # a body may follow, which nobody reads
        self._send(_refusal(HTTPStatus.METHOD_NOT_ALLOWED))

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse_method

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {
            "Content-Type": answer.media_type,
            "Content-Length": str(len(answer.content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a page asks every few seconds."""


def _refusal(status: HTTPStatus) -> Answer:
    return Answer("text/plain; charset=utf-8", f"{status.value} {status.phrase}\n".encode(), status)


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
