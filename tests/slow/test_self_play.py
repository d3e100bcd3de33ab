"""Self-play learns connect four well enough to beat a random player nine times out of ten."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install 'proximo[pettingzoo]'")
pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "self_play.py"


def test_it_beats_a_random_player() -> None:
    example = runpy.run_path(str(EXAMPLE))
    model = example["train"](100_000, seed=0)
    assert example["share_won"](model, 200) > 0.9
