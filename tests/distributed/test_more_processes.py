"""One, two and four processes are one training; so are four, then two, then one, and two of which one is slow."""

from __future__ import annotations

import pytest
from launching import launch
from test_gathered import assert_equal
from trainings import begin, dawdle, go_on, train, train_all

pytestmark = pytest.mark.slow
STEPS = 24 * 8 * 4


@pytest.mark.parametrize("name", ["discrete", "box", "normalized", "target_kl", "masks", "ppg", "rnd"])
@pytest.mark.parametrize("counts", [(4, 4), (2, 2, 2, 2), (1, 3, 1, 3)])
def test_any_number_of_processes_is_one_training(tmp_path, name, counts):
    alone = train(name, counts, STEPS)
    for (found,) in launch(train_all, [(name, counts, STEPS, {})], processes=len(counts), folder=tmp_path):
        assert_equal(found, alone)


@pytest.mark.parametrize("name", ["normalized", "ppg"])
def test_four_processes_go_on_in_two_and_then_in_one(tmp_path, name):
    folder = str(tmp_path / "checkpoints")
    launch(begin, name, (2, 2, 2, 2), folder, STEPS, 192, processes=4, folder=tmp_path)
    launch(go_on, name, (3, 5), folder, 500, processes=2, folder=tmp_path)
    assert_equal(go_on(name, (8,), folder), train(name, (8,), STEPS))


def test_a_slow_rank_changes_nothing_but_time(tmp_path):
    alone = train("box", (4, 4), STEPS)
    for found in launch(dawdle, "box", (4, 4), STEPS, folder=tmp_path):
        assert_equal(found, alone)
