"""A checkpoint is one file of rank 0, from which any number of processes goes on, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from launching import launch
from test_gathered import assert_equal
from test_sharded import STEADY
from trainings import begin_all, go_on_all, train, train_all

TOTAL = 24 * 8 * 4
# case, environments of two processes, changes; PPG stops within a phase
CASES = [("normalized", (3, 5), {}), ("normalized_per_rollout", (3, 5), {}), ("ppg", (3, 5), {})]
# close to one process, not equal to it: sharded updates round otherwise
SHARDED = [("ppg", (3, 5), {"backend": "torch", "policy_kwargs": STEADY}), ("lstm", (3, 5), {})]
NAMES = [name for name, _, _ in CASES]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each case: checkpoints of two processes, and checkpoints of one, both of the first three rollouts."""
    root = tmp_path_factory.mktemp("resume")
    first = [(name, counts, f"{root}/{name}-of-two", TOTAL, 500, changes) for name, counts, changes in CASES]
    sharded = [(name, counts, f"{root}/{name}-sharded", TOTAL, 500, changes) for name, counts, changes in SHARDED]
    launch(begin_all, first + sharded, folder=root)
    by_one = [(name, (8,), f"{root}/{name}-of-one", TOTAL, 500, changes) for name, _, changes in CASES]
    launch(begin_all, by_one, processes=1, folder=root)
    second = [(name, counts, f"{root}/{name}-of-one") for name, counts, _ in CASES]
    second += [(name, (5, 3), f"{root}/{name}-sharded") for name, _, _ in SHARDED]
    return root, launch(go_on_all, second, folder=root)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The whole trainings in a process that is alone."""
    cases = [(name, (8,), TOTAL, changes) for name, _, changes in CASES]
    return launch(train_all, cases, processes=1, folder=tmp_path_factory.mktemp("uninterrupted"))[0]


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_two_processes_go_on_in_one(folders, uninterrupted, index, tmp_path):
    task = (NAMES[index], (8,), f"{folders[0]}/{NAMES[index]}-of-two")
    ((found,),) = launch(go_on_all, [task], processes=1, folder=tmp_path)
    assert_equal(found, uninterrupted[index])


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_one_process_goes_on_in_two(folders, uninterrupted, index):
    for rank in range(2):
        assert_equal(folders[1][rank][index], uninterrupted[index])


@pytest.mark.parametrize("index", range(len(SHARDED)), ids=[name for name, _, _ in SHARDED])
def test_sharded_training_goes_on_with_other_shares(folders, index):
    """What was 3 + 5 goes on as 5 + 3: all episodes, memory and rollouts of the phase are where they were."""
    name, counts, changes = SHARDED[index]
    alone = train(name, counts, TOTAL, **changes)
    found = folders[1][0][len(CASES) + index]
    assert found["sharded"]
    assert found["steps"] == alone["steps"] == TOTAL
    assert found["generator"] == alone["generator"]
    assert found["episodes"] == alone["episodes"]  # of the whole training: states of the environments included
    np.testing.assert_allclose(found["weights"], alone["weights"], rtol=0.0, atol=2e-2)
