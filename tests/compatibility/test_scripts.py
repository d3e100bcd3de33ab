"""Users' scripts for Stable-Baselines3 and sb3-contrib, ported by replacing names. Each asserts its own results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = sorted({path.stem for path in (Path(__file__).parent / "scripts").glob("*.py")} - {"seed_example"})


@pytest.mark.parametrize("name", NAMES)
def test_script_runs_through_the_door(run_script: Callable[..., dict[str, Any]], name: str) -> None:
    variables = run_script(name)
    homes = {str(getattr(value, "__module__", "")).split(".")[0] for value in variables.values()}
    assert "proximo" in homes
    assert not homes & {"stable_baselines3", "sb3_contrib"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_script_is_valid_for_the_real_library(run_script: Callable[..., dict[str, Any]], name: str) -> None:
    """The scripts prove something only if the libraries they were written for run them."""
    run_script(name, ported=False)
