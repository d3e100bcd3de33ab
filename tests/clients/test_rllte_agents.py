"""rllte's own six on-policy agent files, copied by a user and with only their imports changed, train as that user's."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("rllte") is None, reason="needs pip install --no-deps rllte-core"),
]

SHARED: dict[str, Any] = {"num_steps": 64, "batch_size": 128, "hidden_dim": 64, "lr": 2e-3}
FILES = {
    "A2C": ("legacy/a2c.py", {"n_epochs": 1}),
    "PPO": ("legacy/ppo.py", {}),
    "DAAC": ("daac.py", {"policy_epochs": 4}),
    "DrAC": ("drac.py", {}),
    "DrDAAC": ("drdaac.py", {"policy_epochs": 4}),
    # in one piece, as its .view needs it on a CPU, is only what a single rollout fills
    "PPG": ("ppg.py", {"policy_epochs": 1, "num_aux_mini_batch": 8, "aux_epochs": 1}),
}


def trained(run: Callable[..., str], name: str, device: str, steps: int, **more: Any) -> dict[str, Any]:
    file, options = FILES[name]
    printed = run("real", "rllte_agent.py", file, name, device, steps, json.dumps(SHARED | options | more))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_copied_file_learns(name: str, run: Callable[..., str]) -> None:
    found = trained(run, name, "cpu", 30_000)
    assert found["untrained"] < 60.0
    assert found["trained"] > 2.0 * found["untrained"]
    assert found["trained"] > 100.0


def test_ppgs_file_runs_its_phases_on_an_accelerator(run: Callable[..., str]) -> None:
    """There memory is copied, and its .view finds it in one piece."""
    found = trained(run, "PPG", "sim", 4 * 512, policy_epochs=2, num_aux_mini_batch=4)
    assert found["metrics"].keys() >= {"train/aux_value_loss", "train/kl_loss"}
