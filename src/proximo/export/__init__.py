"""A trained policy as one file that runs without this library: ONNX, or PyTorch's program.

``model.export("policy.onnx")`` is the way in. The file holds what lies between the environment's observations and its
actions (normalisation, network, the likeliest action or a sample, bounds), and nothing of the critic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from proximo.errors import ExportError
from proximo.export.check import Check, Comparison
from proximo.export.graph import PolicyGraph, trace
from proximo.export.interface import Interface, make_interface
from proximo.export.pipeline import observation_pipeline
from proximo.export.spaces_as_json import describe_space
from proximo.export.writers import format_of
from proximo.files.atomic import write_whole
from proximo.files.normalizer_file import NormalizerFile
from proximo.functional.actions import mask_groups
from proximo.training.run_folder import package_version
from proximo.version import __version__

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

__all__ = ["ExportReport", "export_policy"]

FORMAT = "proximo-policy-1"


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how it compares with ``predict``."""

    path: Path  # of the file
    size: int  # bytes
    runtime: str  # what ran the file for the comparison
    metadata: Mapping[str, Any]  # what the file says of itself
    comparison: Comparison  # numbers of observations, choices and ties, and the largest difference

    @property
    def largest_difference(self) -> float:
        """The largest difference of a continuous action or state."""
        return self.comparison.largest_difference

    def __str__(self) -> str:
        found = self.comparison
        ties = f" but for {found.ties} ties" if found.ties else ""
        choices = f", {found.choices} discrete choices equal{ties}" if found.choices else ""
        return (
            f"{found.observations} observations in {self.runtime}, compared with predict: largest difference "
            f"{found.largest_difference:.2g}{choices}"
        )


def export_policy(
    model: OnPolicyAlgorithm,
    path: str | Path,
    *,
    stochastic: bool = False,
    action_masks: bool = False,
    normalizer: NormalizerFile | None = None,
    source: Path | None = None,
    write: bool = True,
) -> ExportReport:
    """Trace the policy, make the file's bytes, compare them with ``predict``, and only then write them.

    ``source`` is the model file that the model was loaded from, of which the metadata keeps a hash.
    """
    target = Path(path)
    file = format_of(target.suffix)
    pipeline = observation_pipeline(model, normalizer)
    interface = make_interface(model.policy, pipeline.space, stochastic, action_masks)
    graph = PolicyGraph(model.policy, interface, pipeline)
    _check_finite(graph)
    program = trace(graph)
    described = {
        **_describe(model, graph, source),
        **pipeline.describe(),
        "observation_space": describe_space(pipeline.space),
    }
    data = file.write(program, graph.interface, described)
    try:
        file.load(data)
        comparison = Check(model, graph.interface, pipeline, file.run).compare()
    except ExportError as error:
        raise ExportError(f"{error}. No file is written") from error
    if write:
        write_whole(target, data)
    return ExportReport(target, len(data), file.runtime, described, comparison)


def _check_finite(graph: nn.Module) -> None:
    """Of NaN the likeliest action is some action, so that comparing discrete ones would not show it."""
    for name, tensor in graph.state_dict(keep_vars=True).items():
        is_weight = isinstance(tensor, nn.Parameter)  # bounds are none, and may be infinite
        if not tensor.isfinite().all() if is_weight else tensor.isnan().any():
            raise ExportError(f"{name} holds NaN or infinity; a policy like that is not exported")


def _describe(model: OnPolicyAlgorithm, graph: PolicyGraph, source: Path | None) -> dict[str, Any]:
    interface: Interface = graph.interface
    return {
        "format": FORMAT,
        "algorithm": type(model).__name__,
        "policy": type(model.policy).__name__,
        "steps_trained": model.num_timesteps,
        "deterministic": interface.noise is None,
        "action_space": describe_space(model.action_space),
        "mask_groups": mask_groups(model.action_space) if interface.masks is not None else [],
        **interface.describe(),
        "versions": _versions(),
        "sha256": {"weights": _hash_of_weights(graph), **({} if source is None else {"model": _hash_of_file(source)})},
    }


def _versions() -> dict[str, str]:
    names = ("torch", "onnx", "onnxscript", "onnxruntime", "gymnasium", "numpy")
    found = {name: version for name in names if (version := package_version(name)) is not None}  # .pt2 needs no ONNX
    return {"proximo": __version__, **found}


def _hash_of_weights(graph: nn.Module) -> str:
    """Of everything that the graph was given: names, shapes and numbers, statistics of normalisation among them."""
    digest = hashlib.sha256()
    for name, tensor in sorted(graph.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _hash_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
