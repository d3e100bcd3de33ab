"""What is in a file, for a person to read: models, checkpoints, Stable-Baselines3's zips, statistics of VecNormalize.

Nothing is built and nothing is run. Texts that come from a file are made printable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from proximo.config import A2CConfig, PPOConfig, TRPOConfig
from proximo.errors import ModelFileError
from proximo.files.archive import MANIFEST, read_archive
from proximo.files.budgets import Budgets
from proximo.files.encoding import decode
from proximo.files.known_values import describe
from proximo.files.normalizer_file import is_pickle, looks_like_normalizer, read_normalizer
from proximo.files.plain_text import printable
from proximo.files.restricted_pickle import Inert, Made, Name
from proximo.files.sb3_archive import Sb3Archive, is_serialized, read_sb3_archive
from proximo.files.zips import existing_file
from proximo.persistence import model_files as files
from proximo.persistence import sb3_files

SPACES = {"observation_space": "observations", "action_space": "actions"}
PROGRESS = {
    "num_timesteps": "steps trained",
    "_total_timesteps": "steps planned",
    "_n_updates": "updates",
    "n_envs": "environments",
    "seed": "seed",
}
# the state of a training, and what follows from other values
HIDDEN: tuple[str, ...] = (
    "_last_obs",
    "_last_episode_starts",
    "_last_original_obs",
    "ep_info_buffer",
    "ep_success_buffer",
    "lr_schedule",
)
HIDDEN += ("_current_progress_remaining", "_num_timesteps_at_start", "_episode_num", "start_time", "_backend_choice")


@dataclass
class Weight:
    """One tensor of a network."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass
class Pickled:
    """A pickled value of a foreign file: what it is, and what becomes of it."""

    name: str
    what: str
    is_code: bool


@dataclass
class Inspection:
    """Everything worth knowing about a file."""

    kind: str
    facts: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)  # hyperparameters, settings
    tensors_title: str = "Network"
    weights: list[Weight] = field(default_factory=list)
    members: dict[str, int] = field(default_factory=dict)
    pickled: list[Pickled] = field(default_factory=list)
    needs: dict[str, str] = field(default_factory=dict)  # what load() will ask for


def inspect_file(path: Path) -> Inspection:
    """Look into a file; raises like reading it would."""
    file = existing_file(path)
    with file.open("rb") as stream:
        start = stream.read(16)
    if looks_like_normalizer(start):
        return _normalizer(file, is_pickle(start))
    if sb3_files.is_foreign(file):
        return _foreign(read_sb3_archive(file))
    return _own(file)


# ---------------------------------------------------------------------------------------------------- own model files


def _own(path: Path) -> Inspection:
    budgets = Budgets()
    manifest, tensors = read_archive(path, budgets)
    kind = "checkpoint" if "training_state" in manifest else _shown(manifest.get("content"))
    fields = manifest.get("fields")
    shown = _fields(fields, budgets) if isinstance(fields, dict) else {}
    weights = tensors.get("policy", {})
    members = {f"{group}.safetensors": sum(map(_bytes, part.values())) for group, part in tensors.items()}
    needs = manifest.get("needs")
    return Inspection(
        kind=f"Proximo {kind}",
        facts={
            "algorithm": _shown(manifest.get("algorithm", "–")),
            "policy": shown.pop("policy_class", "–"),
            **_pop(shown, SPACES),
            "parameters": _count(weights),
            **_pop(shown, PROGRESS),
            "normalisation": "statistics of observations and rewards" if "normalizer" in tensors else "none",
            "written by": f"Proximo {_shown(manifest.get('proximo_version', '?'))}",
        },
        values={name: value for name, value in shown.items() if value != "None"},
        weights=_weights(weights),
        members={MANIFEST: len(json.dumps(manifest)), **members},
        needs={printable(name): _shown(what) for name, what in needs.items()} if isinstance(needs, dict) else {},
    )


def _fields(fields: Mapping[str, Any], budgets: Budgets) -> dict[str, str]:
    return {printable(name): _encoded(value, budgets) for name, value in fields.items() if name not in HIDDEN}


def _encoded(value: Any, budgets: Budgets) -> str:
    """A value of the manifest."""
    try:
        return _shown(_plain(decode(value, budgets=budgets)))
    except ModelFileError:  # of a class that an extension registers, say
        match value:
            case {"$": "class", "value": str(name)}:
                return printable(name)
        return printable(json.dumps(value))


# --------------------------------------------------------------------------------------------- Stable-Baselines3's


def _foreign(archive: Sb3Archive) -> Inspection:
    known = archive.fields(archive.data)
    shown = {printable(name): _shown(_plain(value)) for name, value in known.items() if name not in HIDDEN}
    return Inspection(
        kind="Stable-Baselines3 model",
        facts={
            "algorithm": sb3_files.algorithm_of(archive),
            "policy": shown.pop("policy_class", "–"),
            **_pop(shown, SPACES),
            "parameters": _count(archive.policy),
            **_pop(shown, PROGRESS),
            "written by": f"Stable-Baselines3 {printable(archive.version) or '?'}",
        },
        values={name: value for name, value in shown.items() if value != "None"},
        weights=_weights(archive.policy),
        members=archive.members,
        pickled=[_pickled(archive, name) for name, value in archive.data.items() if is_serialized(value)],
        needs={name: what for name, what in archive.needs.items() if name.partition(".")[0] in _fields_of_models()},
    )


def _pickled(archive: Sb3Archive, name: str) -> Pickled:
    inert, names = archive.pickled(name)
    parts = [what for path, what in archive.needs.items() if path.partition(".")[0] == name]
    if parts:
        return Pickled(printable(name), printable("; ".join(parts)), is_code=True)
    modules = ", ".join(dict.fromkeys(str(item) for item in names[:2]))
    return Pickled(printable(name), printable(_kind(inert) or modules), is_code=False)


def _kind(inert: Inert) -> str:
    match inert:
        case Made(function=Name() as name) if inert.new:
            return str(name)
        case Name():
            return str(inert)
        case dict() | list() | tuple():
            return f"{type(inert).__name__} of {len(inert)}"
        case Made():
            return describe(inert)
    return type(inert).__name__


def _fields_of_models() -> set[str]:
    configurations = (PPOConfig, A2CConfig, TRPOConfig)
    return {*files.COMMON_FIELDS, *(name for config in configurations for name in config.names())}


# ---------------------------------------------------------------------------------------------------- normalisation


def _normalizer(path: Path, pickled: bool) -> Inspection:
    settings, state = read_normalizer(path)
    counts = {name: f"{float(value):,.0f} samples" for name, value in state.items() if name.endswith(".count")}
    return Inspection(
        kind="Stable-Baselines3 VecNormalize (a pickle, not run)" if pickled else "Proximo VecNormalize",
        facts={printable(name): text for name, text in counts.items()},
        values={name: _shown(value) for name, value in settings.items()},
        tensors_title="Statistics",
        weights=[Weight(printable(name), value.shape, str(value.dtype)) for name, value in state.items()],
        members={path.name: path.stat().st_size},
    )


# ------------------------------------------------------------------------------------------------------------ texts


def _shown(value: Any) -> str:
    return printable(value if isinstance(value, str) else repr(value))


def _plain(value: Any) -> Any:
    """Classes by their names."""
    match value:
        case type():
            return value.__name__
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value[:64]]
    return value


def _pop(shown: dict[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    return {label: shown.pop(name) for name, label in labels.items() if name in shown}


def _weights(weights: Mapping[str, Any]) -> list[Weight]:
    return [
        Weight(printable(name), tuple(value.shape), str(value.dtype).removeprefix("torch."))
        for name, value in _distinct(weights).items()
    ]


def _count(weights: Mapping[str, Any]) -> str:
    return f"{sum(value.numel() for value in _distinct(weights).values()):,}"


def _bytes(value: Tensor) -> int:
    return value.numel() * value.element_size()


def _distinct(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Without the second and third names of a shared features extractor."""
    distinct: dict[str, Tensor] = {}
    for name, value in weights.items():
        if not isinstance(value, Tensor):
            continue
        prefix, _, rest = str(name).partition(".")
        shared = weights.get(f"features_extractor.{rest}") if prefix[2:] == "_features_extractor" else None
        if not (isinstance(shared, Tensor) and shared.shape == value.shape and bool((shared == value).all())):
            distinct[str(name)] = value
    return distinct
