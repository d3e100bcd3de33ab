"""The built site in a real browser: nothing on the console, search finds, no page is wider than a phone."""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from document_pages import ROOT

from reports.browser import CHROMIUM, PHONE, Browser

SITE = ROOT / "build" / "docs"
PAGES = (
    "index", "algorithms/ppo", "guides/does-not-learn", "command-line", "architecture", "notebooks/first-steps",
    "reference/agents", "results/speed", "source/learners/ppo", "migration-stable-baselines3",
)  # fmt: skip
pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built: run make docs"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt install chromium"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with contextlib.closing(Browser(tmp_path_factory.mktemp("profile"))) as opened:
        yield opened


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_says_nothing_on_the_console(browser: Browser, address: str, page: str) -> None:
    browser.problems.clear()
    browser.requests.clear()
    browser.open(f"{address}/{page}.html", PHONE)
    assert not browser.problems
    assert [request for request in browser.requests if not request.startswith((address, "data:"))] == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert browser.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_a_path_breaks_between_names() -> None:
    page = (SITE / "source" / "functional" / "advantages.html").read_text("utf-8")
    assert "<h1>src/<wbr>proximo/<wbr>functional/<wbr>advantages.py</h1>" in page


def test_a_flag_of_the_command_line_is_not_broken(browser: Browser, address: str) -> None:
    browser.open(f"{address}/command-line.html", PHONE)
    lines = browser.evaluate("[...document.querySelectorAll('article .option')].map(e => e.getClientRects().length)")
    assert len(lines) > 50
    assert set(lines) == {1}


def test_the_table_of_speeds_fits_a_phone(browser: Browser, address: str) -> None:
    browser.open(f"{address}/index.html", PHONE)
    tables = "[...document.querySelectorAll('.table-wrapper')].map(e => [e.scrollWidth, e.clientWidth])"
    assert all(needed <= given for needed, given in browser.evaluate(tables))


@pytest.mark.parametrize("name", ["nn", "nc"])  # of modules, of classes
def test_dark_code_underlines_no_names(browser: Browser, address: str, name: str) -> None:
    browser.open(f"{address}/getting-started.html", dark=True)
    lines = f"[...document.querySelectorAll('.highlight .{name}')].map(e => getComputedStyle(e).textDecorationLine)"
    assert set(browser.evaluate(lines)) == {"none"}


def test_numbers_of_lines_are_not_transparent(browser: Browser, address: str) -> None:
    browser.open(f"{address}/source/learners/ppo.html")
    numbers = "[...document.querySelectorAll('.highlight .linenos')].map(e => getComputedStyle(e).opacity)"
    assert set(browser.evaluate(numbers)) == {"1"}


@pytest.mark.parametrize("page", ["hsuanwu", "sb3_contrib"])
def test_a_name_of_a_package_is_one_line_on_a_phone(browser: Browser, address: str, page: str) -> None:
    browser.open(f"{address}/reference/{page}.html", PHONE)
    lines = "(heading => heading.offsetHeight / parseFloat(getComputedStyle(heading).lineHeight))"
    assert browser.evaluate(f"{lines}(document.querySelector('article h1'))") < 1.5


def test_the_reference_has_no_rows_that_say_nothing() -> None:
    for page in (SITE / "reference").glob("*.html"):
        assert "Alias for field number" not in page.read_text("utf-8"), page.name


def test_search_finds_a_page(browser: Browser, address: str) -> None:
    browser.open(f"{address}/search.html?q=auxiliary+phase")
    links = "[...document.querySelectorAll('#search-results li a')].map(link => link.href)"
    browser.wait_for(f"{links}.some(link => link.includes('algorithms/ppg.html'))")


def test_links_to_lines_lead_to_them(browser: Browser, address: str) -> None:
    browser.open(f"{address}/algorithms/ppo.html")
    link = browser.evaluate(
        "[...document.querySelectorAll('a.source')].find(a => a.textContent.includes('combine')).href"
    )
    browser.open(link)
    number = int(link.rpartition("-")[2])
    assert browser.evaluate("document.getElementById(location.hash.slice(1)) !== null")
    lines = (ROOT / "src/proximo/learners/ppo.py").read_text("utf-8").splitlines()
    assert lines[number - 1].strip() == "def combine("


def test_an_exported_policy_plays_on_the_site(browser: Browser, address: str) -> None:
    if not (SITE / "play").exists():
        pytest.skip("the site was built without npm")
    assert 'href="../play/index.html"' in (SITE / "guides" / "export.html").read_text("utf-8")
    browser.open(f"{address}/play/index.html?speed=16")
    browser.wait_for("game.steps > 100", 120)


def test_every_equation_is_a_picture(browser: Browser, address: str) -> None:
    browser.open(f"{address}/algorithms/trpo.html")
    assert browser.evaluate("document.querySelectorAll('svg.equation path').length") > 20
    assert "$$" not in browser.evaluate("document.body.textContent")


def test_internal_links_lead_to_files() -> None:
    broken = []
    for page in SITE.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"]+)"', page.read_text("utf-8")):
            path = unquote(urldefrag(target)[0]).partition("?")[0]
            inside = path and "://" not in path and not path.startswith(("mailto:", "data:"))
            if inside and not (page.parent / path).exists():
                broken.append(f"{page.relative_to(SITE)}: {target}")
    assert broken == []


def test_the_reference_describes_arguments_also_those_of_a_base(browser: Browser, address: str) -> None:
    browser.open(f"{address}/reference/environments.html")
    described = (
        "[...document.getElementById('{}').nextElementSibling.querySelectorAll('.field-list li')].map(e => e.innerText)"
    )
    own = browser.evaluate(described.format("proximo.envs.vector.normalize.VecNormalize"))
    assert any(line.startswith("clip_obs") and "kept within" in line for line in own)
    inherited = browser.evaluate(described.format("proximo.envs.vector.vec_env.StepTransform"))
    assert any(line.startswith("venv") for line in inherited)
