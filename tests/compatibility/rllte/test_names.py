"""Every public name and module path of rllte 1.0.1's on-policy side is there, or its absence explained."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proximo.rllte.paths import ABSENT, EXPLANATIONS
from proximo.rllte.xploit.policy import OnPolicyDecoupledActorCritic, OnPolicySharedActorCritic

UPSTREAM: dict[str, list[str]] = {
    module: names.split()
    for module, names in json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize("module", UPSTREAM)
def test_every_name_is_mirrored_or_explained(module: str) -> None:
    try:
        ours = importlib.import_module(f"proximo.{module}")
    except ModuleNotFoundError:
        path = module.removeprefix("rllte.")
        reason = next(why for prefix, why in ABSENT.items() if path.startswith(prefix))
        with pytest.raises(ModuleNotFoundError, match=re.escape(f": {reason}")):
            importlib.import_module(f"proximo.{module}")
        return
    missing = {name for name in UPSTREAM[module] if not hasattr(ours, name)}
    assert missing <= EXPLANATIONS.keys()
    for name in missing:
        with pytest.raises(ImportError, match=f"{name} is not in proximo.{module}"):
            exec(f"from proximo.{module} import {name}")


def test_explanations_are_of_names_that_upstream_has() -> None:
    known = {name for names in UPSTREAM.values() for name in names}
    assert EXPLANATIONS.keys() <= known
    paths = [module.removeprefix("rllte.") for module in UPSTREAM]
    assert all(any(path.startswith(prefix) for path in paths) for prefix in ABSENT)


def test_paths_name_the_same_classes() -> None:
    from proximo.rllte.agent import PPO
    from proximo.rllte.agent.legacy.ppo import PPO as Legacy
    from proximo.rllte.xploit.encoder import MnihCnnEncoder
    from proximo.rllte.xploit.encoder.mnih_cnn_encoder import MnihCnnEncoder as ByItsPath

    assert Legacy is PPO
    assert ByItsPath is MnihCnnEncoder


def test_a_misspelt_path_is_an_ordinary_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'proximo.rllte.agents'"):
        importlib.import_module("proximo.rllte.agents")


@pytest.mark.parametrize("policy", [OnPolicySharedActorCritic, OnPolicyDecoupledActorCritic])
def test_describe_tells_what_a_policy_is_made_of(policy: type[OnPolicySharedActorCritic]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        policy.describe()
    assert policy.__name__ in text.getvalue()
    assert "-> actions" in text.getvalue()


def test_verification_passes(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "proximo.rllte.verification"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "verification passed: 896 steps" in finished.stdout
    assert not list(tmp_path.iterdir())
