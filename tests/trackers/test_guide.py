"""The guides on trackers and the hub: their commands are Proximo's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from proximo.cli.hub import Pull, Push
from proximo.cli.train import parse_arguments

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (GUIDES / name).read_text(), re.DOTALL | re.MULTILINE)


def test_commands_of_the_guides_are_read():
    words = [shlex.split(line, comments=True) for block in blocks("trackers.md", "bash") for line in block.splitlines()]
    tracked = [parse_arguments(line[2:]).track for line in words if line[:2] == ["proximo", "train"]]
    assert tracked == [("wandb",), ("mlflow", "trackio"), ("wandb",)]
    flags = {field.replace("_", "-") for kind in (Push, Pull) for field in kind.__dataclass_fields__}
    for flag in re.findall(r"`--([a-z-]+)", (GUIDES / "hub.md").read_text()):
        assert flag in flags
