"""P processes with n environments each are the training of one process with P · n: to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from group_functions import messages_of_training
from launching import launch
from trainings import train_all

CASES: list[tuple[str, tuple[int, ...], int, dict[str, Any]]] = [
    ("discrete", (3, 5), 600, {}),
    ("discrete", (2, 2), 300, {}),
    ("discrete", (1, 3), 300, {}),
    ("box", (3, 5), 600, {}),
    ("scales", (3, 5), 600, {}),
    ("mirror", (3, 5), 600, {}),
    ("normalized", (3, 5), 600, {}),
    ("normalized_per_rollout", (3, 5), 600, {}),
    ("target_kl", (4, 4), 800, {}),
    ("sde", (3, 3), 450, {}),
    ("masks", (3, 5), 600, {}),
    ("rnd", (3, 5), 600, {}),
    ("a2c", (3, 5), 300, {}),
    ("ppg", (3, 5), 600, {}),
]
NAMES = [f"{name}-{'+'.join(map(str, counts))}" for name, counts, _, _ in CASES]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    return launch(train_all, CASES, folder=tmp_path_factory.mktemp("gathered"))


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    """The same trainings in a process that is alone."""
    cases = [(name, (sum(counts),), steps, changes) for name, counts, steps, changes in CASES]
    return launch(train_all, cases, processes=1, folder=tmp_path_factory.mktemp("alone"))[0]


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("steps", "episodes", "successes", "generator", "n_envs", "backend"):
        assert found[name] == expected[name], name
    for name in ("weights", "moments"):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    for name, value in expected["statistics"].items():
        np.testing.assert_array_equal(found["statistics"][name], value, err_msg=name)


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_bit_equal_to_one_process(together, by_one, index):
    alone = by_one[index]
    assert alone["backend"] == "fused"
    for rank in range(2):
        assert_equal(together[rank][index], alone)
        np.testing.assert_equal(together[rank][index]["metrics"], alone["metrics"])


def test_statistics_per_rollout_are_exchanged_once_however_long_it_is(tmp_path):
    def messages(name: str, n_steps: int) -> int:
        return launch(messages_of_training, name, n_steps, 3, folder=tmp_path)[0]

    assert messages("normalized_per_rollout", 192) == messages("normalized_per_rollout", 96)
    assert messages("normalized", 192) == messages("normalized", 96) + 3 * 96


def test_cases_reach_what_they_are_for(together):
    by_name = dict(zip(NAMES, together[0], strict=True))
    assert by_name["discrete-3+5"]["n_envs"] == 8
    assert any(length == 9 for _, length in by_name["discrete-3+5"]["episodes"])  # truncated
    assert any(length < 9 for _, length in by_name["discrete-3+5"]["episodes"])
    epochs = by_name["target_kl-4+4"]["metrics"]["train/n_updates"]
    assert epochs < 6 * 5  # five rollouts, of which some ended early
