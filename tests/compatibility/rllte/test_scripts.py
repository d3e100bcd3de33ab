"""rllte's users' code runs with only the import changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts"


def run_script(name: str) -> dict[str, Any]:
    source = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8").replace("from rllte", "from proximo.rllte")
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, f"{name}.py", "exec"), variables)
    return variables


@pytest.mark.parametrize("name", [pytest.param("atari", marks=pytest.mark.slow), "images"])
def test_the_seeds_example_trains(name: str, empty_folder: Path) -> None:
    if name == "atari":
        pytest.importorskip("ale_py")
    agent = run_script(name)["agent"]
    assert agent.backend == "torch: features extractor is EspeholtResidualEncoder"
    assert agent.metrics["train/entropy_loss"] > 0.0
    assert Path(os.getcwd()) == empty_folder  # rllte moves the process into the run's folder
    (run,) = (empty_folder / "logs" / f"ppo_{name}").iterdir()
    assert (run / "model" / "agent_32.zip").is_file()


def test_three_steps_to_your_own_agent() -> None:
    variables = run_script("own_agent")
    assert variables["agent"].backend == "fused"  # acting; its update is plain PyTorch
    assert variables["trained"] > 100.0 > variables["untrained"]


WITHOUT_GUARD = """
from rllte.agent import PPO
from rllte.env import make_rllte_env

env = make_rllte_env("CartPole-v1", num_envs=3)
agent = PPO(env=env, num_steps=32, hidden_dim=16)
agent.train(500)
print("trained", agent.global_step)
"""


def test_workers_need_no_main_guard(empty_folder: Path) -> None:
    script = empty_folder / "script.py"
    script.write_text(WITHOUT_GUARD.replace("from rllte", "from proximo.rllte"), encoding="utf-8")
    finished = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "trained 480" in finished.stdout
