"""The group itself: exchanges, who writes, and how the failure of one process ends all."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from group_functions import (
    callbacks_and_files,
    exchange_everything,
    fail_on_one_rank,
    fail_to_connect,
    meet_too_few,
)
from launching import Launched, launch
from torch.distributed import HashStore
from trainings import make_model, outcome

from proximo.data import Share
from proximo.distributed import Group, launch_of
from proximo.errors import DistributedError


def test_exchanges(tmp_path):
    for found in launch(exchange_everything, folder=tmp_path):
        assert found["shares"] == [Share(0, 2, 5), Share(2, 3, 5)]
        np.testing.assert_array_equal(found["whole"], [[0.0, 1.0, 10.0, 11.0, 12.0]])
        np.testing.assert_array_equal(found["sum"], [3.0, 30.0])
        assert found["sums"].dtype == np.float64
        assert found["sums"][0] == 0.2
        assert found["small"] == [{"rank": 0}, {"rank": 1}]
        assert found["large"] == [1000, 2000]
        assert found["first"] == "of rank 0"
        assert found["highest"] == [1.0, 1.0]
        assert found["counted"] == (9, True)  # each one message, but for the large one's two


def test_processes_that_cannot_be_connected_end_in_time(tmp_path):
    for rank, error in enumerate(launch(fail_to_connect, folder=tmp_path)):
        assert f"rank {rank} has not found all of the 2 processes" in error


def test_a_process_that_never_starts_is_missed(tmp_path):
    first, second = launch(meet_too_few, folder=tmp_path)
    assert "rank 0 has not found all of the 3 processes" in first
    assert "within 1 s" in first
    assert "rank 1 has waited 1 s for rank 0 of 3 to start" in second


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}, None),  # the batch script, not a task
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "MASTER_ADDR": "b", "MASTER_PORT": "9"}, (1, 2, "b", 9)),
    ],
)
def test_who_is_launched(variables, expected):
    assert launch_of(variables) == expected


def agree(store: HashStore, rank: int, timeout: float = 60.0) -> str:
    group = Group.__new__(Group)  # of which nobody else is needed
    group.rank, group.world_size, group.timeout = rank, 2, timeout
    return group._agree_on_start(store)


def test_a_new_start_is_told_from_those_before_it_in_the_same_store():
    store, names = HashStore(), []
    with ThreadPoolExecutor(1) as second:
        for _ in range(3):  # rank 0 finds what an ended rank 1 left there
            answer = second.submit(lambda: (time.sleep(0.1), agree(store, 1))[1])
            names.append(agree(store, 0))
            assert answer.result() == names[-1]
    assert len(set(names)) == 3
    with pytest.raises(DistributedError, match="rank 0 has waited 0 s for rank 1 of 2 to start"):
        agree(store, 0, timeout=0.1)
    with pytest.raises(DistributedError, match="rank 1 has waited 0 s for rank 0 of 2 to start"):
        agree(store, 1, timeout=0.1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    return launch(callbacks_and_files, str(folder), folder=folder)


def test_callbacks_files_and_models(trained):
    first, second = trained
    assert "model.zip" in first["files"]
    assert "best/best_model.zip" in first["files"]
    assert "logs/evaluations.npz" in first["files"]
    assert any(name.startswith("saved/") for name in first["files"])
    assert any(name.startswith("boards/") for name in first["files"])
    assert second["files"] == []
    assert [len(results) for results in first["evaluations"]] == [5] * len(first["evaluations"])
    assert first["evaluations"] == second["evaluations"]
    assert first["last"] == second["last"]
    assert first["together"] == (2, 0, 8, 384)
    assert second["together"] == (2, 1, 8, 384)
    assert first["alone"] == (1, 0, 4, 96)
    assert second["alone"] == (1, 0, 4, 96)
    assert first["loaded"] == 384
    assert (first["seeds"], second["seeds"]) == ([0, 1], [2, 3])
    np.testing.assert_array_equal(first["unseeded"], second["unseeded"])


def test_a_stop_by_one_rank_stops_all_where_one_process_would(trained):
    first, second = trained
    assert first["calls"] == second["calls"] == 24  # the rollout is completed by all
    for found in (first, second):
        steps, weights = found["stopped"]
        assert steps == 5 * 8
        np.testing.assert_array_equal(weights, outcome(make_model("discrete", 8))["weights"])


@pytest.mark.slow
def test_an_evaluation_is_waited_for_longer_than_silence(tmp_path):
    found = launch(callbacks_and_files, str(tmp_path), 25.0, folder=tmp_path, PROXIMO_TIMEOUT="15")
    assert found[0]["together"] == (2, 0, 8, 384)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("exception", "ZeroDivisionError: a bug of the user's"),
        ("busy", "ZeroDivisionError: a bug of the user's"),
        ("first", "ZeroDivisionError: a bug of the user's"),
        ("nan", "NonFiniteError"),
        ("drift", "the weights of the processes have come apart: ranks 0 | 1 agree"),
        ("killed", "another process has gone while rank 0 was at the end of the rollout"),
        ("hang", "rank 1 has not come to the end of the rollout: it has shown no life for"),
    ],
)
def test_the_failure_of_one_ends_all(tmp_path, kind, expected):
    patience = {"PROXIMO_TIMEOUT": "10"} if kind == "hang" else {}  # a busy machine is silent for seconds, too
    with Launched(fail_on_one_rank, (kind,), 2, tmp_path, **patience) as launched:
        other = 1 if kind == "first" else 0
        text = launched.wait(60.0, ranks=[other])[other]
        assert launched.code(other) == 1, text
        assert expected in text
        assert "DistributedError" in text
        if kind == "hang":
            assert "was last collecting a rollout" in text
