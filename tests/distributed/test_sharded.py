"""Each process learns from its own rows: within 1e-6 of one process after an update, and alike on all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import launch
from trainings import train, train_all

TORCH = {"backend": "torch"}
FEW = {**TORCH, "batch_size": 3}  # of 3 + 5 environments: some minibatches have no row of one process
ONE_ROLLOUT = 24 * 8
# the auxiliary phase begins where its divergence has no gradient but rounding, which Adam would blow up
STEADY = {"net_arch": [16, 16], "optimizer_kwargs": {"eps": 1e-3}}

CASES: list[tuple[str, tuple[int, ...], int, dict[str, Any]]] = [
    ("discrete", (3, 5), ONE_ROLLOUT, TORCH),
    ("discrete", (1, 7), ONE_ROLLOUT, FEW),
    ("box", (3, 5), ONE_ROLLOUT, {**TORCH, "clip_range_vf": 0.2, "ent_coef": 0.01}),
    ("normalized", (3, 5), ONE_ROLLOUT, TORCH),
    ("scales", (3, 5), ONE_ROLLOUT, TORCH),
    ("target_kl", (4, 4), ONE_ROLLOUT, TORCH),
    ("masks", (3, 5), ONE_ROLLOUT, TORCH),
    ("a2c", (3, 5), 6 * 8, TORCH),
    ("trpo", (3, 5), ONE_ROLLOUT, {**TORCH, "sub_sampling_factor": 2}),
    ("ppg", (3, 5), 2 * ONE_ROLLOUT, {**TORCH, "policy_kwargs": STEADY}),
    ("lstm", (3, 5), ONE_ROLLOUT, {}),
    ("lstm", (1, 3), 25 * 4, {"n_steps": 25, "batch_size": 10}),  # the last sequences are shorter
]
NAMES = [f"{name}-{'+'.join(map(str, counts))}" for name, counts, _, _ in CASES]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    return launch(train_all, CASES, folder=tmp_path_factory.mktemp("sharded"))


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_within_rounding_of_one_process(together, index):
    name, counts, steps, changes = CASES[index]
    alone = train(name, counts, steps, **changes)
    assert not alone["sharded"]
    for rank in range(2):
        found = together[rank][index]
        assert found["sharded"]
        assert found["backend"].startswith("torch")
        for key in ("steps", "episodes", "successes", "generator", "n_envs"):
            assert found[key] == alone[key], key
        np.testing.assert_allclose(found["weights"], alone["weights"], rtol=0.0, atol=1e-6)
        assert found["metrics"].keys() == alone["metrics"].keys()
        for key, value in alone["metrics"].items():
            np.testing.assert_allclose(found["metrics"][key], value, rtol=1e-3, atol=1e-5, err_msg=key)
    np.testing.assert_array_equal(together[0][index]["weights"], together[1][index]["weights"])


def test_target_kl_ended_an_update(together):
    found = together[0][NAMES.index("target_kl-4+4")]
    assert found["metrics"]["train/n_updates"] < 6
