"""Run a user's script, written for Stable-Baselines3 and sb3-contrib, after replacing these names and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
collect_ignore = ["scripts"]  # they run when a test runs them, not when doctests are looked for


@pytest.fixture
def run_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs ``scripts/<name>.py`` in an empty folder and returns its variables."""

    def run(name: str, ported: bool = True, **replacements: str) -> dict[str, Any]:
        source = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
        if ported:
            source = source.replace("stable_baselines3", "proximo.sb3").replace("sb3_contrib", "proximo.sb3_contrib")
        for old, new in replacements.items():
            source = source.replace(old.replace("_", " "), new)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MPLBACKEND", "Agg")
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
        variables: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(source, f"{name}.py", "exec"), variables)
        return variables

    return run
