"""The guides on trackers and the hub: their Python runs, without network, and their commands are Proximo's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import wandb

from proximo.cli.hub import Pull, Push
from proximo.cli.train import parse_arguments

from .reading import progress

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (GUIDES / name).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", ["trackers.md", "hub.md"])
def test_python_of_the_guide_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if name == "hub.md":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    wandb.teardown()  # it remembers the folder in which its first run began
    names: dict[str, object] = {}
    for block in blocks(name, "python"):
        exec(compile(block, name, "exec"), names)
    if name == "trackers.md":
        assert sorted(progress(tmp_path / "tracked")) == [128, 256]
        assert (tmp_path / "models" / "model.zip").exists()
        assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    else:
        assert "cannot be reached" in capsys.readouterr().out
        assert not (tmp_path / "cartpole").exists()


def test_commands_of_the_guides_are_read():
    words = [shlex.split(line, comments=True) for block in blocks("trackers.md", "bash") for line in block.splitlines()]
    tracked = [parse_arguments(line[2:]).track for line in words if line[:2] == ["proximo", "train"]]
    assert tracked == [("wandb",), ("mlflow", "trackio"), ("wandb",)]
    flags = {field.replace("_", "-") for kind in (Push, Pull) for field in kind.__dataclass_fields__}
    for flag in re.findall(r"`--([a-z-]+)", (GUIDES / "hub.md").read_text()):
        assert flag in flags
