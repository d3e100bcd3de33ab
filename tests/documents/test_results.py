"""The pages of results are those of the files that trainings have left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import minatar, ppg_learning, pybullet
from benchmarks.run import RESULTS, as_markdown
from benchmarks.training_queue import Page


@pytest.mark.parametrize("page", [pybullet.PAGE, minatar.PAGE], ids=lambda page: page.name)
def test_tables_are_those_of_the_finished_trainings(page: Page) -> None:
    if not (results := page.results()):
        assert not (RESULTS / f"{page.name}.md").exists()
        return
    text = (RESULTS / f"{page.name}.md").read_text()
    for values in ("evaluation", "last_100_episodes"):
        assert as_markdown(page.rows(results, values)) in text, f"python -m benchmarks.{page.name} --table mends it"


def test_ppg_against_ppo_is_that_of_the_stored_runs() -> None:
    text = (RESULTS / "ppg_learning.md").read_text()
    assert as_markdown(ppg_learning.summary(json.loads(ppg_learning.STORED.read_text())["runs"])) in text
    assert ppg_learning.first_goal_section().strip() in text


def test_a_cell_with_few_seeds_claims_no_interval() -> None:
    runs = [
        {"robot": "Ant", "algo": "ppo", "noise": "gsde", "evaluation": [1000.0 * seed, 3000.0 * seed]}
        for seed in (1, 2)
    ]
    row = next(row for row in pybullet.PAGE.rows(runs, "evaluation") if row[:2] == ["Ant", "PPO gSDE"])
    assert row[2:] == ["2", "3000 ± 1414", "-9706 … 15706", "2782 ± 76"]
    row = next(row for row in pybullet.PAGE.rows(runs[:1], "evaluation") if row[:2] == ["Ant", "PPO gSDE"])
    assert row[2:] == ["1", "2000", "–", "2782 ± 76"]


def test_a_training_is_known_by_its_name() -> None:
    training = pybullet.RobotTraining(3, "Hopper", "ppo", "gaussian")
    assert pybullet.RobotTraining.named(training.name) == training
    words = training.arguments(Path("runs"))
    assert words[:2] == ["train", "HopperBulletEnv-v0"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--preset"] == "HopperBulletEnv-v0:gaussian"
    assert options["--seed"] == "3"
    assert training.result == RESULTS / "pybullet" / "Hopper-ppo-gaussian-3.json"
