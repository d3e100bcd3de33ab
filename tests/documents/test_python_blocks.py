"""Every Python block of the documentation runs, page by page in its order, and prints what the page says.

A block behind ``<!-- slow -->`` runs in the slow suite, with all blocks of its page; one behind ``<!-- needs X -->``
only where the package X is installed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from document_pages import PAGES, SMALLER, Block, blocks_of, name_of

WITH_BLOCKS = [page for page in PAGES if blocks_of(page)]
SLOW = [page for page in WITH_BLOCKS if any(block.mark == "slow" for block in blocks_of(page))]
# files that the blocks of a page leave behind
MADE = {
    "docs/guides/export.md": {"policy.onnx", "policy.pt2", "recurrent.onnx"},
    "docs/guides/trackers.md": {"tracked/progress.csv", "tracked/trackio.json", "models/model.zip"},
}
USERS_HOME = Path.home()  # before a test has another


def run(blocks: list[Block], name: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        code = block.code
        for number, smaller in SMALLER.items():
            code = code.replace(number, smaller)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, name, "exec"), names)
        if block.printed is not None:  # without what rllte's agents tell of their training
            lines = [line for line in output.getvalue().splitlines(keepends=True) if not re.match(r"\[\w+\] ", line)]
            assert "".join(lines) == block.printed, block.code


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
@pytest.mark.filterwarnings("ignore")
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    blocks = [block for block in blocks_of(page) if block.mark != "slow"]
    run([block for block in blocks if block.missing is None], name_of(page))
    missing = sorted({block.missing for block in blocks if block.missing is not None})
    if missing and len(missing) == len(blocks):
        pytest.skip(f"needs {', '.join(missing)}")
    if not missing:
        made = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
        assert MADE.get(name_of(page), set()) <= made


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=name_of)
def test_slow_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(blocks_of(page), name_of(page))


def test_pages_are_tried_without_network_token_and_home(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    from proximo.hub import HubError, pull

    assert Path.home() != USERS_HOME
    assert hub.HfApi().endpoint == "http://127.0.0.1:9"
    assert hub.get_token() is None
    with pytest.raises(HubError, match="cannot be reached"):
        pull("ada/ppo-CartPole-v1", tmp_path / "cartpole")
    assert not (tmp_path / "cartpole").exists()
    trackio = pytest.importorskip("trackio")
    assert str(trackio.TRACKIO_DIR) == os.environ["TRACKIO_DIR"]


def test_no_python_block_is_overlooked() -> None:
    """What looks like one is found as one: neither indented nor with words behind the language."""
    for page in PAGES:
        fences = re.findall(r"^\s*```\s*(?:python|py)\b.*$", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) == len(blocks_of(page)), name_of(page)
    assert len(WITH_BLOCKS) > 25
