"""A stand-in of the hub on 127.0.0.1: what huggingface_hub requests to make a repository, commit, list and download.

Small files are in the commit (regular), zips and films are uploaded before it (LFS) and downloaded over a redirect, as
on the hub. Xet, which the hub prefers for large files, is a protocol of its own and switched off in these tests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LFS_SUFFIXES = (".zip", ".mp4", ".gif", ".pkl")


@dataclass
class StandIn:
    """Repositories as dictionaries from path to content, and all that was requested."""

    address: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)  # LFS, by hash
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    commits: int = 0
    listed_sizes: dict[str, int] = field(default_factory=dict)  # lies of the listing, by path
    refuse_writes: bool = False
    redirect: str = ""  # where large files are said to be, instead of this server's other name
    added: bytes = b""  # what follows a large file, behind its length and hash
    hosts_with_token: set[str] = field(default_factory=set)

    @property
    def commit(self) -> str:
        return hashlib.sha1(str(self.commits).encode()).hexdigest()

    def tree(self, repository: str) -> list[dict[str, object]]:
        entries = []
        for path, content in self.repositories[repository].items():
            size = self.listed_sizes.get(path, len(content))
            entry: dict[str, object] = {"type": "file", "path": path, "size": size, "oid": git_hash(content)}
            if path.endswith(LFS_SUFFIXES):
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 130}
            entries.append(entry)
        return [*entries, {"type": "directory", "path": "logs", "oid": "0" * 40, "size": 0}]


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    hub: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: object = b"", headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while length := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_any(self) -> None:
        path, data = unquote(urlsplit(self.path).path), self.body()
        self.hub.requests.append((self.command, path))
        if token := self.headers.get("Authorization"):
            self.hub.tokens.add(token)
            self.hub.hosts_with_token.add(self.headers.get("Host", "").partition(":")[0])
        for method, pattern, action in ROUTES:
            if (self.command == method or (self.command == "HEAD" and method == "GET")) and (
                found := re.fullmatch(pattern, path)
            ):
                getattr(self, action)(data, *found.groups())
                return
        self.answer(404, {"error": f"the stand-in does not know {self.command} {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    # ------------------------------------------------------------------------------------------------------- writing

    def create(self, data: bytes) -> None:
        asked = json.loads(data)
        name = f"{asked['organization']}/{asked['name']}"
        if self.hub.refuse_writes:
            self.answer(403, {"error": "Forbidden"}, {"X-Error-Message": "You may not write here"})
            return
        status = 409 if name in self.hub.repositories else 200
        self.hub.repositories.setdefault(name, {})
        self.answer(status, {"url": f"{self.hub.address}/{name}", "name": name})

    def validate(self, data: bytes) -> None:
        is_card = json.loads(data)["content"].startswith("---\n")
        self.answer(200, {"errors": [] if is_card else [{"message": "no metadata"}], "warnings": []})

    def preupload(self, data: bytes, repository: str) -> None:
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(LFS_SUFFIXES) else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(data)["files"]
        ]
        self.answer(200, {"files": files})

    def batch(self, data: bytes, repository: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.hub.address}/lfs/{each['oid']}"}}}
            for each in json.loads(data)["objects"]
        ]
        self.answer(200, {"transfer": "basic", "objects": objects}, {"Content-Type": "application/vnd.git-lfs+json"})

    def store(self, data: bytes, oid: str) -> None:
        assert hashlib.sha256(data).hexdigest() == oid
        self.hub.objects[oid] = data
        self.answer(200)

    def take_commit(self, data: bytes, repository: str) -> None:
        for line in data.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                self.hub.repositories[repository][value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                self.hub.repositories[repository][value["path"]] = self.hub.objects[value["oid"]]
        self.hub.commits += 1
        address = f"{self.hub.address}/{repository}/commit/{self.hub.commit}"
        self.answer(200, {"success": True, "commitUrl": address, "commitOid": self.hub.commit})

    # ------------------------------------------------------------------------------------------------------- reading

    def info(self, data: bytes, repository: str) -> None:
        if repository not in self.hub.repositories:
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return
        self.answer(200, {"id": repository, "modelId": repository, "sha": self.hub.commit, "siblings": [], "tags": []})

    def list_tree(self, data: bytes, repository: str) -> None:
        self.answer(200, self.hub.tree(repository))

    def resolve(self, data: bytes, repository: str, path: str) -> None:
        content = self.hub.repositories[repository].get(path)
        if content is None:
            self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        elif path.endswith(LFS_SUFFIXES):
            oid = hashlib.sha256(content).hexdigest()
            self.hub.objects[oid] = content
            linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
            elsewhere = self.hub.address.replace("127.0.0.1", "localhost")  # the hub's large files are on another host
            place = {"Location": self.hub.redirect or f"{elsewhere}/lfs/{oid}", "X-Repo-Commit": self.hub.commit}
            self.answer(302, b"", {**linked, **place})
        else:
            self.answer(200, content, {"ETag": f'"{git_hash(content)}"', "X-Repo-Commit": self.hub.commit})

    def give(self, data: bytes, oid: str) -> None:
        self.answer(200, self.hub.objects[oid] + self.hub.added, {"ETag": f'"{oid}"'})


REPOSITORY = r"([\w.-]+/[\w.-]+)"
ROUTES = (
    ("POST", r"/api/repos/create", "create"),
    ("POST", r"/api/validate-yaml", "validate"),
    ("POST", rf"/api/models/{REPOSITORY}/preupload/main", "preupload"),
    ("POST", rf"/{REPOSITORY}\.git/info/lfs/objects/batch", "batch"),
    ("PUT", r"/lfs/(\w+)", "store"),
    ("POST", rf"/api/models/{REPOSITORY}/commit/main", "take_commit"),
    ("GET", rf"/api/models/{REPOSITORY}(?:/revision/\w+)?", "info"),
    ("GET", rf"/api/models/{REPOSITORY}/tree/\w+", "list_tree"),
    ("GET", rf"/{REPOSITORY}/resolve/\w+/(.+)", "resolve"),
    ("GET", r"/lfs/(\w+)", "give"),
)


@contextmanager
def serving() -> Iterator[StandIn]:
    hub = StandIn()
    handler = type("HandlerOfOne", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
