"""A new training that begins with the weights of another: of any algorithm whose policy has the same shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proximo.errors import ModelFileError
from proximo.files.archive import read_archive
from proximo.functional.return_moments import stored_moments
from proximo.persistence import model_files, sb3_files

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm


def start_from(model: OnPolicyAlgorithm, path: Path) -> list[str]:
    """Give a new model the weights in a model file, and its environments the statistics of normalisation in it.

    The value keeps its meaning: of a model with ``normalize_returns``, the units come with the weights. Optimiser,
    counters and random states stay those of a new training. Gives the names of what was taken.
    """
    if sb3_files.is_foreign(path):
        parameters, units = model_files.read_parameters(path, model)
        weights, statistics = parameters["policy"], None
    else:
        manifest, tensors = read_archive(path)
        if manifest.get("content") not in ("model", "policy") or "policy" not in tensors:
            raise ModelFileError(f"{path} holds no weights of a policy; expected a model file written by save()")
        weights, statistics = tensors["policy"], tensors.get("normalizer")
        units = stored_moments(tensors.get("algorithm", {}))
    try:
        model._use_units(units)
        model_files.set_parameters(model, {"policy": weights}, exact_match=False, strict=True)
    except ValueError as error:
        raise ModelFileError(f"a run cannot start from {path}: {error}") from error
    taken = ["weights"]
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None and statistics is not None:
        normalizer.load_state({name: tensor.numpy() for name, tensor in statistics.items()})
        taken.append("statistics of normalisation")
    return taken
