"""The HTML page of `proximo report` in a real browser: what is drawn and said, what hostile run folders can do."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from proximo.cli.main import main
from proximo.envs.rendering import write_video
from proximo.functional.statistics import mean_interval
from proximo.reports.content import numbers
from proximo.reports.page import as_json

from .browser import CHROMIUM, DESKTOP, PHONE, Browser
from .run_folders import write_run

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
LIGHTNESS = """(text => {
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const [red, green, blue] = text.match(/[\\d.]+/g).map(value => linear(value / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
})"""
SHARES = {"rollouts": 30.0, "updates": 10.0, "other": 10.0}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run of the real command, with warning, evaluations and film (a short one: filming takes seconds)."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["--steps", "2000", "--seed", "1", "--eval-every", "1024", "--eval-episodes", "4", "--device", "cuda"]
    assert main(["train", "CartPole-v1", *words, "--runs-dir", str(folder)]) == 0
    (run,) = folder.iterdir()
    write_video(run / "video.gif", [np.full((32, 48, 3), shade, np.uint8) for shade in (0, 255)], 10)
    return run


def report(folder: Path, *words: str | Path) -> Path:
    page = folder / "report.html"
    assert main(["report", *map(str, words), "-o", str(page)]) == 0
    return page


def texts(browser: Browser, selector: str) -> list[str]:
    found = browser.evaluate(f"[...document.querySelectorAll({selector!r})].map(node => node.textContent)")
    assert isinstance(found, list)
    return found


def two_groups(folder: Path) -> list[Path]:
    """Three seeds of one training and two of another, which differ in gamma."""
    runs = []
    for gamma, seed, offset in ((0.9, 1, 0.0), (0.9, 2, 3.0), (0.9, 3, 9.0), (0.8, 1, 5.0), (0.8, 2, 5.5)):
        returns = [offset + 10.0 * index for index in range(10)]
        evaluations = [[offset + index, offset + 2.0 * index, offset] for index in range(5)]
        start, end = {"event": "start"}, {"event": "end", "ending": "finished", "seconds": SHARES}
        runs.append(
            write_run(
                folder / f"g{gamma}-{seed}",
                returns,
                seed=seed,
                gamma=gamma,
                evaluations=evaluations,
                journal=[start, {"event": "warning", "text": f"careful {gamma}"}, end],
            )
        )
    return runs


@needs_browser
def test_a_real_run_from_its_folder_to_the_browser(trained, browser, tmp_path):
    page = report(tmp_path, trained)
    browser.open(page.as_uri())
    rows = list(csv.DictReader((trained / "progress.csv").open()))
    evaluation = json.loads((trained / "result.json").read_text())["evaluation"]
    assert not browser.problems
    assert browser.evaluate("document.title") == "PPO on CartPole-v1"
    (row,) = texts(browser, ".results tbody tr")
    mean, low, high = mean_interval(evaluation["episode_rewards"])
    last = [row for row in rows if row["rollout/ep_rew_mean"]][-1]
    with np.load(trained / "evaluations.npz") as arrays:
        means, steps = arrays["results"].mean(axis=1), arrays["timesteps"]
    best = f"{means.max():.2f}at {steps[means.argmax()]:,} steps"
    expected = [
        f"PPO on CartPole-v1, seed 1{trained.name}", f"{int(last['time/total_timesteps']):,}",
        f"{float(last['rollout/ep_rew_mean']):.2f}", f"{mean:.2f}{low:.2f} … {high:.2f}, 4 episodes", best,
        f"{float(last['rollout/ep_len_mean']):.1f}", "finished",
    ]  # fmt: skip
    assert row == "".join(expected)
    assert browser.evaluate("document.querySelector('.film img').naturalWidth") == 48
    (speed,) = texts(browser, ".times tbody tr")
    assert f"{int(last['time/fps']):,}" in speed
    assert re.search(r"rollouts \d+ %, updates \d+ %, .*evaluation \d+ %", speed)
    warning = "--device is 'cuda', but PyTorch finds no CUDA here: using the CPU"
    assert texts(browser, ".warnings li") == [warning + trained.name]
    (command,) = texts(browser, "#repeat .command:first-child pre")
    assert command.startswith("proximo train --preset ")
    assert command.endswith(f"{trained.name} --workers 0 --eval-every 1024 --eval-episodes 4 --device cuda")
    assert json.loads((trained / "versions.json").read_text())["packages"]["torch"] in texts(browser, "#versions")[0]


@needs_browser
def test_the_command_repeats_the_run(trained, browser, tmp_path, monkeypatch):
    monkeypatch.chdir(trained.parent.parent)
    browser.open(report(tmp_path, trained).as_uri())
    (command,) = texts(browser, "#repeat .command:first-child pre")
    assert main([*command.split()[1:], "--runs-dir", str(tmp_path / "again")]) == 0
    (again,) = (tmp_path / "again").iterdir()
    columns = [
        [row["rollout/ep_rew_mean"] for row in csv.DictReader((run / "progress.csv").open())]
        for run in (trained, again)
    ]
    assert columns[0] == columns[1]


@needs_browser
def test_means_curves_and_differences(browser, tmp_path):
    page = report(tmp_path, *two_groups(tmp_path / "runs"))
    browser.open(page.as_uri())
    assert not browser.problems
    rows = texts(browser, ".results tr.mean")
    assert len(rows) == 2
    for row, lasts in zip(rows, ([90.0, 93.0, 99.0], [95.0, 95.5]), strict=True):
        mean, low, high = mean_interval(lasts)
        assert f"{mean:.2f}{low:.2f} … {high:.2f}" in row
    best = mean_interval([(0 + 4 + 8) / 3 + offset for offset in (0.0, 3.0, 9.0)])
    assert f"{best.mean:.2f}{best.low:.2f} … {best.high:.2f}" in rows[0]
    assert texts(browser, "#curves .chart h3") == ["Training return", "Evaluation return"]
    for chart in (0, 1):
        find = f"document.querySelectorAll('#curves .chart')[{chart}]"
        assert browser.evaluate(f"{find}.querySelectorAll('.line').length") == 2
        assert browser.evaluate(f"{find}.querySelectorAll('.band').length") == 2
        assert browser.evaluate(f"{find}.querySelector('.line').getBBox().width") > 200
        assert browser.evaluate(f"{find}.querySelector('.line').getBBox().height") > 50
    assert texts(browser, "#settings tbody tr")[0] == "gamma0.90.8"
    assert texts(browser, "#warnings li") == ["careful 0.9g0.9-1, g0.9-2, g0.9-3", "careful 0.8g0.8-1, g0.8-2"]
    assert texts(browser, "#time .note")[0] == "rollouts 60 %, updates 20 %, other 20 %"
    assert texts(browser, "#time td.number")[:2] == ["1,234", "50.0 s"]


@needs_browser
def test_hover_zoom_and_keyboard(browser, tmp_path):
    """The values that a pointer shows are those of the files."""
    browser.open(report(tmp_path, *two_groups(tmp_path / "runs")).as_uri())
    chart = "document.querySelector('#curves .chart')"
    browser.evaluate(f"{chart}.scrollIntoView({{block: 'center'}})")
    line = browser.evaluate(
        f"(box => ({{left: box.left, right: box.right, y: box.top + box.height / 2}}))"
        f"({chart}.querySelector('.line').getBoundingClientRect())"
    )
    at = lambda step: line["left"] + (step - 100) / 900 * (line["right"] - line["left"])  # noqa: E731
    browser.mouse("mouseMoved", at(502), line["y"])
    mean, low, high = mean_interval([40.0, 43.0, 49.0])
    tip = browser.evaluate(f"{chart}.querySelector('.tip').textContent")
    assert tip.startswith("500 steps")
    assert f"{mean:.2f} [{low:.2f}, {high:.2f}] PPO on CartPole-v1, gamma 0.9" in tip
    assert "45.25 [" in tip
    browser.mouse("mousePressed", at(300), line["y"], button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", at(600), line["y"], button="left", buttons=1)
    browser.mouse("mouseReleased", at(600), line["y"], button="left", clickCount=1)
    axis = f"[...{chart}.querySelectorAll('.axis text')].map(text => text.textContent)"
    assert {"400", "500"} <= set(browser.evaluate(axis))
    assert not {"200", "800", "1k"} & set(browser.evaluate(axis))
    browser.evaluate(f"{chart}.querySelector('.plot').focus()")
    browser.key("0")
    assert "1k" in browser.evaluate(axis)
    browser.key("Escape")
    for _ in range(2):
        browser.key("ArrowRight")
    assert browser.evaluate(f"{chart}.querySelector('[aria-live]').textContent").startswith("200 steps")
    browser.evaluate(f"{chart}.querySelector('.legend button').click()")
    assert browser.evaluate(f"{chart}.querySelectorAll('.line').length") == 1
    browser.evaluate("document.querySelector('#curves details').open = true")
    browser.wait_for("document.querySelectorAll('#curves details .chart .line').length === 2")
    assert not browser.problems


@needs_browser
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_fits_the_screen_and_can_be_read(screen, dark, browser, tmp_path):
    """Nothing is wider than the screen, and text stands out from its ground (WCAG's 4.5 to 1)."""
    name = "Environment-with-a-very-long-name-that-nobody-would-choose-but-somebody-will-v0"
    runs = [*two_groups(tmp_path / "runs"), write_run(tmp_path / "runs" / "x", [1.0, 2.0], env=name, seed=7)]
    browser.open(report(tmp_path, *runs).as_uri(), screen, dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    for selector, ground in (("h1", "body"), (".note", ".card"), ("summary", ".card"), (".results td", ".card")):
        pair = browser.evaluate(
            f"[getComputedStyle(document.querySelector('{selector}')).color, "
            f"getComputedStyle(document.querySelector('{ground}')).backgroundColor].map({LIGHTNESS})"
        )
        assert (max(pair) + 0.05) / (min(pair) + 0.05) >= 4.5, selector
        assert (pair[1] < 0.2) is dark
    assert not browser.problems


@needs_browser
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_table_of_results_is_seen_whole(width, browser, tmp_path):
    """The state of a run stands in the last column: none is beyond the card's edge, where one would have to scroll."""
    runs = []
    for seed in (1, 2):
        evaluations = [[-1287.594 + 30.0 * index + number for number in range(20)] for index in range(2)]
        folder = tmp_path / "runs" / f"HalfCheetahBulletEnv-v0-ppo-{seed}-20260102-030405"
        runs.append(
            write_run(folder, [-1216.351, -1201.2], env="HalfCheetahBulletEnv-v0", seed=seed, evaluations=evaluations)
        )
    browser.open(report(tmp_path, *runs).as_uri(), {**DESKTOP, "width": width})
    box = "document.querySelector('.scroll:has(.results)')"
    assert browser.evaluate(f"{box}.scrollWidth") <= browser.evaluate(f"{box}.clientWidth")
    cells = "[...document.querySelectorAll('.results .state')].map(cell => cell.getBoundingClientRect().right)"
    assert max(browser.evaluate(cells)) <= browser.evaluate(f"{box}.getBoundingClientRect().right")
    # an interval is read as one piece
    pieces = "[...document.querySelectorAll('.results td .piece')].map(piece => piece.getClientRects().length)"
    assert set(browser.evaluate(pieces)) == {1}


@needs_browser
def test_a_hostile_run_folder_is_text(browser, tmp_path):
    """Markup in names, settings, columns, warnings and versions is shown, and nothing of it runs."""
    run = write_run(
        tmp_path / f"run{HOSTILE.replace('/', '∕')[:60]}", [1.0, 2.0], env=HOSTILE, column=HOSTILE,
        journal=[{"event": "warning", "text": HOSTILE}, {"event": HOSTILE, "error": HOSTILE},
                 {"event": "end", "ending": HOSTILE, "error": HOSTILE, "seconds": {HOSTILE: 1e999, "other": 1}}],
    )  # fmt: skip
    with (run / "config.toml").open("a") as config:
        config.write(f'"{HOSTILE}" = "{HOSTILE}"\n[session]\ndevice = "{HOSTILE}; $(reboot)"\n')
    (run / "versions.json").write_text(json.dumps({HOSTILE: {HOSTILE: HOSTILE}}))
    (run / "video.gif").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'>{HOSTILE}</svg>")
    page = report(tmp_path, run, "--title", HOSTILE)
    text = page.read_text()
    assert text.count("<script") == 2
    assert "<img" not in text
    browser.open(page.as_uri())
    assert browser.evaluate("window.broken") is None
    assert not browser.problems
    assert set(browser.requests) <= {page.as_uri(), "data:,"}  # the icon, which a browser may ask for later
    for selector in ("h1", "#results th[scope=row]", "#settings td", "#warnings li", "#versions td", "#repeat pre"):
        assert any(HOSTILE in found for found in texts(browser, selector)), selector
    browser.evaluate("document.querySelector('#curves details').open = true")
    assert HOSTILE in browser.wait_for("document.querySelector('#curves select')?.textContent")
    assert browser.evaluate("document.querySelectorAll('main script, main img, main iframe').length") == 0
    assert "video.gif is no film" in texts(browser, "#film")[0]


@needs_browser
def test_the_policy_refuses_what_the_page_does_not_bring(browser, tmp_path):
    """Even markup that found its way in could neither run nor ask anybody."""
    browser.open(report(tmp_path, write_run(tmp_path / "run", [1.0, 2.0])).as_uri())
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.broken = 1'}))"
    )
    browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 1\">')")
    refused = browser.evaluate("fetch('http://127.0.0.1:9/').then(() => 'answered', () => 'refused')")
    assert refused == "refused"
    browser.settle()
    assert browser.evaluate("window.broken") is None
    assert sum("Content Security Policy" in problem for problem in browser.problems) >= 3


def test_numbers_that_json_has_no_word_for(tmp_path):
    run = write_run(
        tmp_path / "run", [1.0, float("nan"), float("inf"), 2.0], evaluations=[[np.nan, np.nan], [1.0, np.nan]]
    )
    text = report(tmp_path, run).read_text()
    (content,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', text, flags=re.DOTALL)

    def refuse(name):
        raise AssertionError(f"{name} in the JSON")

    charts = json.loads(content, parse_constant=refuse)["tasks"][0]["charts"]
    assert [chart["series"][0]["x"] for chart in charts] == [[100, 400], [400]]
    assert charts[1]["series"][0]["mean"] == [1]
    assert numbers([1.0, np.nan, -np.inf, 0.1 + 0.2, 2.0**60]) == [1, None, None, 0.3, 1.152922e18]
    assert json.loads(as_json({"<a>&": "\u2028</script>"})) == {"<a>&": "\u2028</script>"}
    with pytest.raises(ValueError, match="Out of range float"):
        as_json([float("nan")])


def test_a_mean_says_over_how_many_seeds_it_is_if_not_over_all(tmp_path):
    runs = [write_run(tmp_path / str(seed), [4.0 * seed], seed=seed, evaluations=[[2.0 * seed]]) for seed in (1, 2)]
    runs.append(write_run(tmp_path / "failed", [], seed=3))
    (content,) = re.findall(
        r'<script type="application/json" id="content">(.*?)</script>', report(tmp_path, *runs).read_text(), re.DOTALL
    )
    mean = json.loads(content)["results"]["rows"][0]["cells"]
    assert mean[0]["note"] == "mean of 3 seeds"
    assert (mean[2]["text"], mean[2]["note"].split(", ")[1]) == ("6.00", "2 seeds")
    assert (mean[3]["text"], mean[3]["note"].split(", ")[1]) == ("3.00", "2 seeds")


def test_group_folders_runs_without_metrics_and_old_runs(trained, tmp_path, capsys):
    """A folder stands for its runs; a run that has logged nothing yet is a row all the same."""
    group = tmp_path / "runs" / "group"
    write_run(group / "seed-1", [1.0, 2.0])
    fresh = write_run(group / "seed-2", [3.0], seed=2)
    (fresh / "progress.csv").unlink()
    old = Path(__file__).parents[1] / "persistence" / "runs_of_0.1.0" / "ppo-run"
    text = report(tmp_path, tmp_path / "runs", old).read_text()
    (content,) = re.findall(r'id="content">(.*?)</script>', text, flags=re.DOTALL)
    rows = json.loads(content)["results"]["rows"]
    assert [row["cells"][0]["note"] for row in rows] == ["mean of 2 seeds", "seed-1", "seed-2", "ppo-run"]
    assert [row["cells"][1]["text"] for row in rows[1:3]] == ["200", "0"]
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "no run folder" in capsys.readouterr().err
    shutil.copytree(trained, tmp_path / "damaged")
    (tmp_path / "damaged" / "evaluations.npz").write_bytes(b"PK nonsense")
    assert main(["report", str(tmp_path / "damaged"), "-o", str(tmp_path / "x.html")]) == 2
    assert "evaluations.npz is no file of evaluations" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("name", ["config.toml", "versions.json", "progress.csv", "evaluations.npz", "result.json"])
def test_a_strangers_folder_brings_no_file_of_the_reader(name, tmp_path, capsys):
    """A link in it could put the reader's own files into a page that is then published."""
    run = write_run(tmp_path / "run", [1.0], evaluations=[[1.0]])
    (run / "result.json").write_text("{}")
    (run / "versions.json").write_text("{}")
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    assert main(["report", str(run), "-o", str(tmp_path / "x.html")]) == 2
    assert f"{name} leads out of the run folder" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
