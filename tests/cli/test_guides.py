"""The guides about environments and training: their examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
NAMES = ("asymmetric", "value-normalization", "adaptive-learning-rate", "symmetry", "pettingzoo")


@pytest.mark.parametrize("name", NAMES)
def test_examples_run_one_after_the_other(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    if name == "pettingzoo":
        pytest.importorskip("pygame", reason="needs PettingZoo: pip install 'proximo[pettingzoo]'")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": name}
    blocks = re.findall(r"^```python\n(.*?)^```", (GUIDES / f"{name}.md").read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), names)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files(name: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", (GUIDES / f"{name}.md").read_text(encoding="utf-8")):
        if "://" not in target:
            assert (GUIDES / target).exists(), f"{name} links to {target}"
