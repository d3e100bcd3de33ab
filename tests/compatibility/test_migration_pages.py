"""The snippets of the migration pages run, and print what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["migration-rllte.md", "migration-hsuanwu.md"])
def test_snippets_print_what_the_page_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text(encoding="utf-8")
    pairs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert len(pairs) == 10
    names: dict[str, Any] = {}
    for code, expected in pairs:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, name, "exec"), names)
        said = printed.getvalue().splitlines(keepends=True)
        lines = [line for line in said if not re.match(r"\[\w+\] ", line)]  # without what agents tell of their training
        assert "".join(lines) == expected, code
