"""Every action space and policy as a graph, and as the files it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tests.export.cases import CASES

from proximo.export.check import Check
from proximo.export.graph import PolicyGraph
from proximo.export.interface import make_interface
from proximo.export.pipeline import observation_pipeline

# several outputs; images; squashed continuous actions; a sample among those allowed. Memory: the guide has it
QUICK = ("hybrid", "cnn", "gsde-squashed-sampled", "discrete-masked-sampled")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", CASES)
def test_graph_acts_as_predict(name: str) -> None:
    case = CASES[name]
    model = case.make()
    pipeline = observation_pipeline(model)
    masked = case.export.get("action_masks", model.masks_actions)
    interface = make_interface(model.policy, pipeline.space, case.export.get("stochastic", False), masked)
    graph = PolicyGraph(model.policy, interface, pipeline)

    def run(inputs: Any) -> dict[str, Any]:
        with torch.no_grad():
            outputs = graph({key: torch.as_tensor(value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    found = Check(model, interface, pipeline, run).compare()
    assert found.observations >= 256
    assert found.ties == 0
    for port in interface.outputs:
        inputs = {port.name: port.zeros(3).numpy() for port in interface.inputs}
        if "observed" not in name and "dictionary" not in name:  # zeros are no observation there
            answer = run(inputs)[port.name]
            assert (answer.shape, answer.dtype) == (port.full_shape(3), port.dtype)


def exported(name: str, path: Path) -> None:
    case = CASES[name]
    model = case.make()
    report = model.export(path, **case.export)
    # a difference of rounding may tip an action of half precision over to its neighbour
    assert report.largest_difference <= (np.finfo(np.float16).eps if name.startswith("box16") else 1e-5)
    assert path.stat().st_size == report.size


@pytest.mark.parametrize("name", QUICK)
def test_onnx_acts_as_predict(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path / "policy.onnx")


def test_program_acts_as_predict(tmp_path: Path) -> None:
    exported("gru-hybrid", tmp_path / "policy.pt2")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["onnx", "pt2"])
@pytest.mark.parametrize("name", CASES)
def test_every_file_acts_as_predict(name: str, ending: str, tmp_path: Path) -> None:
    exported(name, tmp_path / f"policy.{ending}")


@pytest.mark.parametrize("name", ["box", "own-extractors", "phasic", "decoupled", "lstm-box"])
def test_nothing_of_the_critic_is_in_the_graph(name: str) -> None:
    model = CASES[name].make()
    pipeline = observation_pipeline(model)
    graph = PolicyGraph(model.policy, make_interface(model.policy, pipeline.space, False, False), pipeline)
    held = {key.removeprefix("policy.") for key, _ in graph.named_parameters()}
    actor = {
        key
        for key, _ in model.policy.named_parameters()
        if not any(part in key for part in ("value_net", "vf_features", "critic", "advantage", "log_std"))
    }
    if name == "own-extractors":  # the actor's, under its first name
        assert not any("vf_features" in key for key in held)
    assert held == actor


def test_initialisers_of_the_file_are_the_actor_s(tmp_path: Path) -> None:
    model = CASES["box"].make()
    model.export(tmp_path / "policy.onnx")
    file = onnx.load(tmp_path / "policy.onnx")
    sizes = sorted(np.prod(item.dims, dtype=int) for item in file.graph.initializer if "policy." in item.name)
    policy = model.policy
    parts = (policy.mlp_extractor.policy_net, policy.action_net)
    assert sizes == sorted(parameter.numel() for part in parts for parameter in part.parameters())
    critic = policy.mlp_extractor.value_net[0].weight.detach().numpy().tobytes()
    assert critic not in (tmp_path / "policy.onnx").read_bytes()
    assert policy.action_net.weight.detach().numpy().tobytes() in (tmp_path / "policy.onnx").read_bytes()
