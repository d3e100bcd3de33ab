"""The migration page of Stable-Baselines3 is true: its examples print what it says, in either library."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/migration-stable-baselines3.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^### (\d+\. .*?)\n\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
LIBRARIES = {
    "proximo": {},
    "stable_baselines3": {"proximo.sb3_contrib": "sb3_contrib", "proximo.sb3": "stable_baselines3"},
}


def test_there_are_ten_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("library", [pytest.param("stable_baselines3", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("title", "code", "printed"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
@pytest.mark.filterwarnings("ignore")
def test_example_prints_what_the_page_says(
    title: str, code: str, printed: str, library: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    for ours, theirs in LIBRARIES[library].items():
        code = code.replace(ours, theirs)
    exec(compile(code, title, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("PPO on CartPole-v1, 4 environments", "CartPole-v1, 4 envs, defaults"),
        ("PPO on HalfCheetah-v5, 1 environment", "HalfCheetah-v5, 1 env, defaults"),
        ("A2C on CartPole-v1, 8 environments", "A2C, CartPole-v1, 8 envs, defaults"),
        ("RecurrentPPO on CartPole-v1, 8 environments", "RecurrentPPO, CartPole-v1, 8 envs, defaults"),
        ("MaskablePPO on InvalidActionEnvDiscrete", "MaskablePPO, InvalidActionEnvDiscrete(20), defaults"),
    ],
)
def test_speed_is_what_was_measured(line: str, work: str) -> None:
    """Within a third, which is what two measurements on one machine may differ by."""
    said = re.search(rf"^\| {re.escape(line)} \| \| about ([\d.]+) times", PAGE, re.MULTILINE)
    assert said is not None
    table = (ROOT / "benchmarks/results/speed.md").read_text(encoding="utf-8")
    row = next(row.split(" | ") for row in table.splitlines() if row.startswith(f"| {work} |"))
    assert float(said[1]) == pytest.approx(float(row[3]), rel=1 / 3), json.dumps(row)


@pytest.mark.parametrize(
    ("page", "numbers", "results", "row"),
    [
        ("rllte", ("2,230 steps/s", "20,449"), "rllte", "| PPO, CartPole-v1, 8 envs, hidden_dim 64 | 2,230 | 20,449 |"),
        ("hsuanwu", ("500.0 of 500",), "ppg_learning", "| CartPole-v1, rewards normalised | 100,352 | 5 | "),
    ],
)
def test_numbers_of_the_other_pages_were_measured(page: str, numbers: tuple[str, ...], results: str, row: str) -> None:
    text = (ROOT / f"docs/migration-{page}.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if f"(../benchmarks/results/{results}.md)" in line and "|" in line)
    assert all(number in line for number in numbers)
    table = (ROOT / f"benchmarks/results/{results}.md").read_text(encoding="utf-8")
    measured = next(line for line in table.splitlines() if line.startswith(row))
    assert all(number.split()[0] in measured for number in numbers)


@pytest.mark.parametrize("page", ["rllte", "hsuanwu"])
def test_the_other_pages_have_ten_snippets_with_their_output(page: str) -> None:
    text = (ROOT / f"docs/migration-{page}.md").read_text(encoding="utf-8")
    assert len(re.findall(r"```python\n.*?```\n\n```text\n", text, re.DOTALL)) == 10
