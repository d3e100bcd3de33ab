"""The live view over real sockets: what it shows, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from proximo.cli.live import LiveView
from proximo.cli.main import main
from proximo.reports.server import LiveServer

from .browser import CHROMIUM, Browser
from .run_folders import write_run

PROXIMO = Path(sys.executable).parent / "proximo"
GIF = b"GIF89a" + bytes(20)


@contextmanager
def served(folder: Path):
    with LiveServer(LiveView(folder), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A request as it is written, without a client that tidies its path."""
    host = headers.pop("Host", f"127.0.0.1:{server.server_address[1]}")
    lines = [f"{method} {path} HTTP/1.0", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    return int(status.split()[1]), dict(field.split(": ", 1) for field in fields), body


@pytest.fixture
def folder(tmp_path):
    """Two runs, one in a group, and beside them what nobody may see."""
    runs = tmp_path / "runs"
    write_run(runs / "first", [1.0, 2.0])
    write_run(runs / "group" / "second", [3.0, 4.5], seed=2)
    (tmp_path / "secret.txt").write_text("secret")
    write_run(tmp_path / "outside", [9.0])
    (runs / "link").symlink_to(tmp_path / "outside")
    return runs


def test_lists_runs_and_gives_their_content(folder):
    with served(folder) as server:
        status, headers, body = ask(server, "/runs")
        assert status == 200
        assert headers["X-Content-Type-Options"] == "nosniff"
        rows = json.loads(body)["runs"]
        assert [(row["name"], row["steps"], row["training"]) for row in rows] == [
            ("first", "200 of 1,000", "2.00"),
            ("group/second", "200 of 1,000", "4.50"),
        ]
        status, _, body = ask(server, "/content?run=first&run=group%2Fsecond")
        assert status == 200
        assert len(json.loads(body)["repeat"]) == 2
        status, headers, body = ask(server, "/report?run=first")
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"connect-src 'self'" in body


def test_shows_what_was_written_since(folder):
    with served(folder) as server:
        ask(server, "/runs")
        with (folder / "first" / "progress.csv").open("a") as progress:
            progress.write("300,7.5,1,1,1\n")
        rows = json.loads(ask(server, "/runs")[2])["runs"]
        assert rows[0]["training"] == "7.50"
        write_run(folder / "third", [5.0])
        (folder / "third" / "config.toml").write_text("nonsense")
        rows = json.loads(ask(server, "/runs")[2])["runs"]
        assert [(row["name"], row["state"]) for row in rows][2] == ("third", "unreadable")
        assert rows[0]["training"] == "7.50"
        status, _, body = ask(server, "/content?run=third")
        assert status == 500
        assert b"is not valid TOML" in body
        config = folder / "third" / "config.toml"
        for line in ("seed = 1.5", "algo = []", "env = 3", "session = 4"):
            given = {"seed": "1", "algo": '"ppo"', "env": '"X"', "preset": '"default"'}
            key, _, value = line.partition(" = ")
            config.write_text("\n".join(f"{name} = {text}" for name, text in {**given, key: value}.items()))
            row = json.loads(ask(server, "/runs")[2])["runs"][2]
            assert (row["state"], "env, algo and preset are texts" in row["note"]) == ("unreadable", True)


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/%2e%2e/secret.txt", "/runs/../../secret.txt", "//etc/passwd", "/first/config.toml",
        "/content?run=../outside", "/content?run=%2e%2e%2foutside", "/content?run=link", "/content?run=", "/content",
        "/content?run=first&run=../outside", "/film?run=first", "/film?run=../outside", "/static/report.js", "/first",
        "/content?run=first%00", "/report?run=/etc",
    ],
)  # fmt: skip
def test_names_no_file_outside(path, folder):
    with served(folder) as server:
        status, _, body = ask(server, path)
    assert status == 404
    assert body == b"404 Not Found\n"


@pytest.mark.parametrize("address", ["http://[/", "http://[::1/runs", "/runs?run=%ff"])
def test_an_address_that_is_none_is_a_bad_request(address, folder, capfd):
    with served(folder) as server:
        assert ask(server, address)[0] == 400
    assert capfd.readouterr().err == ""


def test_a_run_whose_name_is_no_text_does_not_hide_the_others(folder, tmp_path):
    odd = tmp_path / os.fsdecode(b"\xffruns")
    folder.rename(odd)
    (odd / "first").rename(odd / os.fsdecode(b"\xfefirst"))
    with served(odd) as server:
        assert ask(server, "/")[0] == 200
        status, _, body = ask(server, "/runs")
        assert status == 200
        unreadable, second = sorted(json.loads(body)["runs"], key=lambda row: row["name"])
        assert (unreadable["state"], unreadable["address"]) == ("unreadable", "")
        assert second["name"] == "group/second"
        assert ask(server, second["address"])[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_gets(method, folder):
    with served(folder) as server:
        status, headers, body = ask(server, "/runs", method)
        assert (status, headers["Allow"]) == (405, "GET")
        assert b"first" not in body
        assert ask(server, "/runs", "TRACE")[0] == 501


def test_names_of_other_sites_are_refused(folder):
    """A page elsewhere could let its name point here, and read the answers."""
    with served(folder) as server:
        port = server.server_address[1]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "localhost.evil.example:80"):
            assert ask(server, "/runs", Host=host)[0] == 421, host
        for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}"):
            assert ask(server, "/runs", Host=host)[0] == 200, host
        assert ask(server, "/runs?" + "&".join(["a=1"] * 500))[0] == 400


def test_a_run_that_is_asked_for_often_is_told_once(folder):
    """A page elsewhere may send requests, though it cannot read the answers: they must not cost more than they say."""
    with served(folder) as server:
        once = ask(server, "/content?run=first")
        often = ask(server, "/content?" + "&".join(["run=first"] * 150))
        assert often[0] == 200
        assert len(often[2]) == len(once[2])
        assert ask(server, "/content?" + "&".join(["run=first"] * 150) + "&run=nothing")[0] == 404


def test_half_a_request_holds_nobody_up(folder):
    with served(folder) as server:
        slow = [socket.create_connection(("127.0.0.1", server.server_address[1])) for _ in range(50)]
        try:
            for connection in slow:
                connection.sendall(b"GET /runs HT")
            assert ask(server, "/runs")[0] == 200
        finally:
            for connection in slow:
                connection.close()
        assert ask(server, "/" + "a" * 100_000)[0] == 414


def test_films_are_films(folder, tmp_path):
    (folder / "first" / "video.gif").write_bytes(GIF)
    (folder / "group" / "second" / "video.gif").write_text("<script>alert(1)</script>")
    (tmp_path / "film.gif").write_bytes(GIF)
    third = write_run(folder / "third", [1.0])
    (third / "video.gif").symlink_to(tmp_path / "film.gif")
    with served(folder) as server:
        status, headers, body = ask(server, "/film?run=first")
        assert (status, headers["Content-Type"], body) == (200, "image/gif", GIF)
        assert ask(server, "/film?run=group/second")[0] == 404
        assert ask(server, "/film?run=third")[0] == 404


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
def test_a_browser_sees_a_training_go_on(folder, tmp_path):
    browser = Browser(tmp_path / "profile")
    try:
        with served(folder) as server:
            browser.open(server.address)
            browser.wait_for("document.querySelectorAll('tbody tr').length === 3")  # two runs, and the folder of one
            group = browser.evaluate("document.querySelector('tr.mean a').getAttribute('href')")
            assert group == "/report?run=group%2Fsecond"
            browser.evaluate("document.querySelectorAll('tbody input').forEach(box => box.click())")
            assert browser.evaluate("document.getElementById('open').textContent") == "open 2 runs as one report"
            browser.evaluate("document.querySelector('tbody a').click()")
            browser.wait_for("document.querySelectorAll('#curves .line').length === 1")
            assert "2.00" in browser.evaluate("document.querySelector('.results tbody').textContent")
            chart = "document.querySelector('#curves .plot')"
            browser.evaluate(f"window.before = {chart}")
            with (folder / "first" / "progress.csv").open("a") as progress:
                progress.write("300,7.5,1,1,1\n")
            browser.wait_for("document.querySelector('.results tbody').textContent.includes('7.50')")
            assert browser.evaluate(f"window.before === {chart}")  # the same chart, with its zoom
            assert not browser.problems
            assert all(address.startswith((server.address, "data:,")) for address in browser.requests)
    finally:
        browser.close()


def test_the_command_serves_until_it_is_interrupted(folder):
    process = subprocess.Popen(
        [PROXIMO, "report", "--serve", folder, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever started the tests may ignore it
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    address = line.split(" at ")[1].split()[0]
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address + "runs", timeout=30) as answer:
        assert len(json.load(answer)["runs"]) == 2
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    assert process.stdout.read() == "stopped\n"
    process.stdout.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--serve", "nowhere"], "--serve is nowhere, no folder"),
        (["--serve", ".", "-o", "x.html"], "takes no runs, -o or --title"),
        (["first", "--port", "9"], "--host and --port are for --serve"),
        ([], "name at least one run folder"),
        (["--serve", ".", "--port", "-1"], "--port is -1; expected 0 to 65535"),
        (["--serve", ".", "--port", "70000"], "--port is 70000; expected 0 to 65535"),
        (["--serve", ".", "--host", "300.1.1.1"], "cannot listen at 300.1.1.1"),
    ],
)
def test_faulty_flags_are_one_line(words, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
