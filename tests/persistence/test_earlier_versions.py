"""Run folders of 0.1.0, killed in training: later versions resume them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch

from proximo import PPG, PPO
from proximo.cli.main import main
from proximo.files.archive import read_archive

RUNS = Path(__file__).parent / "runs_of_0.1.0"


def total_steps(run: Path) -> tuple[list[int], list[int]]:
    """The step counts in the rows of both log files."""
    with (run / "progress.csv").open() as table:
        in_csv = [int(row["time/total_timesteps"]) for row in csv.DictReader(table)]
    lines = (run / "progress.jsonl").read_text().splitlines()
    return in_csv, [json.loads(line)["time/total_timesteps"] for line in lines]


@pytest.mark.parametrize(
    ("name", "algorithm", "steps_per_row", "final_steps"), [("ppo-run", PPO, 512, 4096), ("ppg-run", PPG, 128, 2048)]
)
def test_a_killed_run_resumes_to_its_end(name, algorithm, steps_per_row, final_steps, tmp_path):
    run = tmp_path / name
    shutil.copytree(RUNS / name, run)
    (checkpoint,) = (run / "checkpoints").iterdir()
    before = {key: value.clone() for key, value in algorithm.load(checkpoint).policy.state_dict().items()}
    rows_before = total_steps(run)
    assert rows_before[0][-1] < final_steps

    assert main(["train", "--resume", str(run)]) == 0

    model = algorithm.load(run / "model.zip")
    assert model.num_timesteps == final_steps
    after = model.policy.state_dict()
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(value, before[key]) for key, value in after.items())
    expected = list(range(steps_per_row, final_steps + 1, steps_per_row))
    assert total_steps(run) == (expected, expected)
    assert expected[: len(rows_before[0])] == rows_before[0]


@pytest.mark.parametrize("name", ["ppo-run", "ppg-run"])
def test_what_the_environments_keep_is_restored(name, tmp_path):
    """Episodes of a ``Monitor`` are counted on, not from zero."""
    run = tmp_path / name
    shutil.copytree(RUNS / name, run)
    (checkpoint,) = (run / "checkpoints").iterdir()
    episodes_before = len(read_archive(checkpoint)[1]["training_state"]["0"])
    assert main(["train", "--resume", str(run)]) == 0
    newest = max((run / "checkpoints").glob("model_*_steps.zip"), key=lambda path: int(path.name.split("_")[1]))
    assert len(read_archive(newest)[1]["training_state"]["0"]) > episodes_before > 10
