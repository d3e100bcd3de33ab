"""Equations of the site are the same in every build."""

from __future__ import annotations

import subprocess
import sys

import pytest
from document_pages import DOCS

CODE = r"from mathematics import picture; print(picture(r'\gamma^2', True), picture(r'\gamma^2', False))"


def test_a_picture_is_the_same_in_every_process() -> None:
    pytest.importorskip("sphinx")
    drawn = set()
    for salt in ("1", "2"):
        environment = {"PYTHONHASHSEED": salt, "MPLBACKEND": "Agg"}
        drawn.add(
            subprocess.run(
                [sys.executable, "-c", CODE], cwd=DOCS / "_tools", env=environment, check=True, capture_output=True
            ).stdout
        )
    assert len(drawn) == 1
