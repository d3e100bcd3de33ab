"""The worked examples of docs/architecture.md: adding a learner, an algorithm, a loss term."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proximo
from proximo import PPO

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCES = Path(proximo.__file__).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    """What the page's Python defines."""
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/architecture.md", "exec"), names)
    return names


def test_a_learner_of_ones_own_is_short() -> None:
    assert max(len(block.splitlines()) for block in blocks("python")) <= 25


def test_a_penalty_holds_the_policy_where_it_was(examples: dict[str, Any]) -> None:
    assert examples["model"].backend == "torch: PenaltyLearner overrides loss_terms"
    divergence = {}
    for beta in (0.0, 100.0):
        kind = type("Penalty", (examples["PenaltyLearner"],), {"beta": beta})
        model = PPO("MlpPolicy", "CartPole-v1", learner_class=kind, n_steps=256, learning_rate=3e-3, seed=0)
        model.learn(256, log_interval=None)
        divergence[beta] = model.logger.name_to_value["train/approx_kl"]
        assert model.logger.name_to_value["train/penalty"] > 0.0
    assert divergence[100.0] < 0.5 * divergence[0.0]


@pytest.mark.parametrize(("name", "backend"), [("AdaptiveLearner", "fused"), ("MinibatchAdaptiveLearner", "torch")])
def test_a_learning_rate_follows_the_divergence(examples: dict[str, Any], name: str, backend: str) -> None:
    rates = {}
    for target in (1e-6, 10.0):
        kind = type(name, (examples[name],), {"target": target})
        model = PPO("MlpPolicy", "CartPole-v1", learner_class=kind, n_steps=64, batch_size=32, n_epochs=2, seed=0)
        model.learn(256)
        assert model.backend.startswith(backend)
        rates[target] = getattr(model.learner, "rate", model.policy.optimizer.param_groups[0]["lr"])
    assert rates[1e-6] < 3e-4 < rates[10.0]


def edit(sources: Path, diff: str) -> list[str]:
    """Apply the page's edits: lines that stay find the place, lines with a plus are added; the files touched."""
    touched = []
    for part in diff.split("+++ ")[1:]:
        name, *lines = part.splitlines()
        path = sources / name
        before = "\n".join(line[1:] for line in lines if line.startswith(" "))
        after = "\n".join(line[1:] for line in lines)
        text = path.read_text(encoding="utf-8")
        assert text.count(f"{before}\n") == 1, f"{name} does not hold {before!r} once"
        path.write_text(text.replace(f"{before}\n", f"{after}\n"), encoding="utf-8")
        touched.append(name)
    return touched


PROGRAM = """
from proximo import PPO

for coefficient in (0.0, 10.0):
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, learning_rate=3e-3, seed=0, value_size_coef=coefficient)
    model.learn(1024)
    print(model.backend, "|", float(abs(model.rollout_buffer.values).mean()))
"""


def test_a_loss_term_takes_few_edits(tmp_path: Path) -> None:
    """On a copy of the library: without weight it changes nothing, with weight values stay small."""
    shutil.copytree(SOURCES, tmp_path / "proximo", ignore=shutil.ignore_patterns("__pycache__"))
    (diff,) = blocks("diff")
    touched = edit(tmp_path / "proximo", diff)
    assert len(touched) <= 6
    assert len(set(touched)) <= 4
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    without, with_term = (line.split(" | ") for line in run.stdout.splitlines())
    assert without[0] == "fused"
    assert with_term[0] == "torch: value_size_coef is 10.0, which kernels do not know"
    assert float(with_term[1]) < 0.2 * float(without[1])
