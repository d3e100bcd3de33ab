"""The pages of results are those of the files that trainings have left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import minatar, ppg_learning, pybullet, pybullet_peer
from benchmarks.run import RESULTS, as_markdown
from benchmarks.training_queue import Page
from proximo.zoo.presets import load_preset


@pytest.mark.parametrize("page", [pybullet.PAGE, pybullet_peer.PAGE, minatar.PAGE], ids=lambda page: page.name)
def test_tables_are_those_of_the_finished_trainings(page: Page) -> None:
    if not (results := page.results()):
        assert not (RESULTS / f"{page.name}.md").exists()
        return
    text = (RESULTS / f"{page.name}.md").read_text()
    for values in ("evaluation", "last_100_episodes"):
        assert as_markdown(page.rows(results, values)) in text, f"python -m benchmarks.{page.name} --table mends it"
    assert page.remarks(results) in text


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


def test_cells_below_the_published_mean_are_named() -> None:
    runs = [
        {"robot": "Hopper", "algo": algo, "noise": "gsde", "evaluation": [mean, mean]}
        for algo, means in (("a2c", (1000.0, 1100.0, 900.0)), ("ppo", (1000.0, 2600.0, 2500.0)))
        for mean in means
    ]
    said = pybullet.PAGE.remarks(runs)  # 1000 [752, 1248] against 1561, and 2033 [-193, 4260] against 2512
    assert said.startswith("Of the 2 cells with three")
    assert "in 1: Hopper A2C gSDE." in said
    assert "in 0." in pybullet.PAGE.remarks(runs[:2])


def test_the_difference_is_that_of_the_means_over_seeds() -> None:
    runs = [
        {"game": "Breakout", "algo": algo, "seed": seed, "evaluation": [mean], "last_100_episodes": mean}
        for algo, means in (("ppo", (1.0, 2.0, 3.0)), ("ppg", (2.0, 4.0)))
        for seed, mean in enumerate(means)
    ]
    # sqrt(2/2 + 1/3) = 1.155 and (4/3)² / (1²/1 + (1/3)²/2) = 1.684 degrees of freedom, whose quantile is 5.17
    assert "| Breakout | 1.0 [-5.0, 7.0] | 1.0 [-5.0, 7.0] |" in minatar.PAGE.remarks(runs)


def test_a_training_is_known_by_its_name() -> None:
    training = pybullet.RobotTraining(3, "Hopper", "ppo", "gaussian")
    assert pybullet.RobotTraining.named(training.name) == training
    words = training.arguments(Path("runs"))
    assert words[:2] == ["train", "HopperBulletEnv-v0"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--preset"] == "HopperBulletEnv-v0:gaussian"
    assert options["--seed"] == "3"
    assert training.result == RESULTS / "pybullet" / "Hopper-ppo-gaussian-3.json"


def test_the_peer_trains_in_the_environment_of_the_preset() -> None:
    pytest.importorskip("pybullet_envs_gymnasium")
    for noise, size in (("gsde", 15), ("gaussian", 16)):  # with Gaussian noise the robot sees the time that is left
        training = pybullet_peer.PeerTraining(1, "Hopper", "a2c", noise)
        env = training.make_env(load_preset("a2c", pybullet.preset_of("Hopper", noise)), 1, training.seed)
        assert env.observation_space.shape == (size,)
        env.close()
