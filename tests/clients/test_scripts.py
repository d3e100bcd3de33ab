"""What other packages' guides tell their users to run with Stable-Baselines3 runs with Proximo inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., str]
WAYS = pytest.mark.parametrize("way", ["replaced", "algorithm"])


@WAYS
@pytest.mark.parametrize(
    ("package", "script", "prints"),
    [
        ("supersuit", "many_agents.py", "Rewards: "),
        ("supersuit", "stacked.py", "Stacked: (12,) True"),
        ("pettingzoo", "connect_four.py", "Winner: "),
        ("highway_env", "highway.py", "Return: "),
        ("wandb", "weights_and_biases.py", "Configured: PPO 64 0.99"),
    ],
)
def test_script(way: str, package: str, script: str, prints: str, run: Run) -> None:
    pytest.importorskip(package)
    assert prints in run(way, script)


@pytest.mark.parametrize("trainer", ["gail", "airl"])
@WAYS
def test_adversarial_imitation(way: str, trainer: str, run: Run) -> None:
    pytest.importorskip("imitation.algorithms.adversarial.gail")
    assert "Returns: " in run(way, "adversarial.py", trainer)


def test_compressed_rollout_buffer(run: Run) -> None:
    """Derived from the real RolloutBuffer, whose memory it lays out itself: only beside the real package."""
    pytest.importorskip("sb3_extra_buffers")
    assert "Buffer: object 64" in run("algorithm", "compressed_buffer.py")


def test_wandb_saves_what_proximo_loads(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    from proximo import PPO

    run("algorithm", "weights_and_biases.py")
    assert PPO.load(tmp_path / "models/model.zip").num_timesteps == 256
