"""Files of ``VecNormalize``: Proximo's, and the pickles of Stable-Baselines3 through the restricted reader.

Proximo's is one safetensors file of float64 arrays, with the settings as JSON in its header.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from gymnasium import spaces

from proximo.data import Array
from proximo.errors import ModelFileError, near_matches
from proximo.files.atomic import write_whole
from proximo.files.budgets import Budgets
from proximo.files.encoding import MAX_DIMENSIONS
from proximo.files.inert_values import inert_value
from proximo.files.known_values import known_value
from proximo.files.plain_text import brief, parse_json, printable
from proximo.files.restricted_pickle import MAX_BYTES, Inert, Made, Name, read_pickle, write_pickle
from proximo.functional.statistics import RunningMeanStd

FORMAT = "proximo-vec-normalize-1"
FOREIGN_CLASS = Name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
FOREIGN_STATISTICS = Name("stable_baselines3.common.running_mean_std", "RunningMeanStd")
PARTS = ("mean", "var", "count")
FLAGS = ("training", "norm_obs", "norm_reward")
NUMBERS = ("clip_obs", "clip_reward", "gamma", "epsilon")
CHOICES = {"update_every": ("step", "rollout")}  # not in Stable-Baselines3's


class NormalizerFile(NamedTuple):
    """The constructor's arguments, and the statistics as ``VecNormalize.state`` names them."""

    settings: dict[str, Any]
    state: dict[str, Array]


def read_normalizer(path: Path) -> NormalizerFile:
    """Read a file of either kind; nothing in it is executed."""
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    try:
        if len(data) > MAX_BYTES:
            raise ModelFileError(f"it holds more than {MAX_BYTES} bytes")
        return parse_normalizer(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is damaged or no VecNormalize file: {error}") from error.__cause__


def parse_normalizer(data: bytes) -> NormalizerFile:
    budgets = Budgets()
    budgets.grant(len(data))
    return _from_pickle(data, budgets) if is_pickle(data) else _from_safetensors(data, budgets)


def is_pickle(data: bytes) -> bool:
    return data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def looks_like_normalizer(start: bytes) -> bool:
    """Whether it is the start of a pickle or of safetensors (the header's length in eight bytes, then JSON)."""
    return is_pickle(start) or start[4:9] == b"\0\0\0\0{"


def write_normalizer(path: Path, content: NormalizerFile) -> None:
    """Write Proximo's form, whole or not at all."""
    metadata = {"format": FORMAT, "settings": json.dumps(content.settings)}
    write_whole(path, safetensors.numpy.save(content.state, metadata=metadata))


# ----------------------------------------------------------------------------------------------------- Proximo's own


def _from_safetensors(data: bytes, budgets: Budgets) -> NormalizerFile:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ModelFileError("no safetensors: its header is cut off")
    header = parse_json(data[8 : 8 + length], budgets, "the header")
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError("it holds no statistics of VecNormalize")
    settings = parse_json(str(metadata.get("settings")).encode("utf-8", "replace"), budgets, "its settings")
    try:
        views = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"no valid safetensors ({printable(str(error))})") from error
    if any(view["dtype"] != "F64" or len(view["shape"]) > MAX_DIMENSIONS for _, view in views):
        raise ModelFileError("its statistics are not of type float64, or of too many dimensions")
    try:
        state = {name: np.frombuffer(view["data"], np.float64).reshape(view["shape"]).copy() for name, view in views}
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"its statistics have no possible shape ({error})") from error
    return NormalizerFile(checked_settings(settings), _checked_state(state))


# --------------------------------------------------------------------------------------------- Stable-Baselines3's


def _from_pickle(data: bytes, budgets: Budgets) -> NormalizerFile:
    made = read_pickle(data, budgets).value
    if not isinstance(made, Made) or not isinstance(made.function, Name) or made.function != FOREIGN_CLASS:
        raise ModelFileError("this is a pickle of something else; nothing of it was run")
    if not isinstance(made.state, dict):
        raise ModelFileError("the pickle lacks its settings")
    wanted = (*FLAGS, *NUMBERS, "norm_obs_keys")
    settings = {name: known_value(made.state[name], budgets) for name in wanted if name in made.state}
    statistics = {"ret_rms": known_value(made.state.get("ret_rms"), budgets)}
    if settings.get("norm_obs", True):
        observations = known_value(made.state.get("obs_rms"), budgets)
        by_key = observations if isinstance(observations, dict) else {"": observations}
        if not all(isinstance(key, str) for key in by_key):
            raise ModelFileError("its statistics are not named by texts")
        statistics |= {f"obs_rms/{key}" if key else "obs_rms": value for key, value in by_key.items()}
    if not all(isinstance(value, RunningMeanStd) for value in statistics.values()):
        raise ModelFileError("the pickle lacks running statistics")
    state = {
        f"{name}.{part}": np.asarray(getattr(value, part), np.float64)
        for name, value in statistics.items()
        for part in PARTS
    }
    return NormalizerFile(checked_settings(settings), _checked_state(state))


def foreign_pickle(content: NormalizerFile) -> bytes:
    """The pickle that Stable-Baselines3's ``VecNormalize.load`` reads."""
    settings, state = content
    names = dict.fromkeys(key.rpartition(".")[0] for key in state if "." in key)
    statistics = {name: _foreign_statistics(state, name) for name in names}
    shapes = {name.partition("/")[2]: state[f"{name}.mean"].shape for name in names if name.startswith("obs_rms")}
    boxes: dict[str, spaces.Space[Any]] = {key: spaces.Box(-np.inf, np.inf, shape) for key, shape in shapes.items()}
    if not boxes:
        raise ValueError("the file holds no statistics of observations, and the other library needs their shape")
    is_dict = "" not in boxes
    attributes: dict[str, Inert] = {
        **{name: value for name, value in settings.items() if name not in CHOICES},
        "observation_space": inert_value(spaces.Dict(boxes) if is_dict else boxes[""]),
        "obs_rms": {key: statistics[f"obs_rms/{key}"] for key in boxes} if is_dict else statistics["obs_rms"],
        "ret_rms": statistics["ret_rms"],
        "old_reward": inert_value(np.zeros(0)),
    }
    return write_pickle(Made(FOREIGN_CLASS, (), state=attributes))


def _foreign_statistics(state: Mapping[str, Array], name: str) -> Made:
    mean, var, count = (state[f"{name}.{part}"] for part in PARTS)
    values = {"mean": inert_value(mean), "var": inert_value(var), "count": float(count)}
    return Made(FOREIGN_STATISTICS, (), state=values)


# --------------------------------------------------------------------------------------------------------- checking


def checked_settings(settings: Any) -> dict[str, Any]:
    """Settings of a file as the arguments of ``VecNormalize`` that they must be."""
    if not isinstance(settings, dict):
        raise ModelFileError("its settings are not the arguments of VecNormalize")
    known = {*FLAGS, *NUMBERS, *CHOICES, "norm_obs_keys"}
    for name, value in settings.items():
        if name not in known:
            raise ModelFileError(f"VecNormalize has no setting {brief(name)}; {near_matches(name, known)}")
        if name in FLAGS:
            fits = isinstance(value, bool)
        elif name in NUMBERS:
            fits = _is_number(value)
        elif name in CHOICES:
            fits = isinstance(value, str) and value in CHOICES[name]  # an array compares with none of them as a whole
        else:
            fits = value is None or (isinstance(value, list) and all(isinstance(key, str) for key in value))
        if not fits:
            raise ModelFileError(f"its setting {name} is {brief(value)}")
    return settings


def _is_number(value: Any) -> bool:
    """Infinity is one (nothing is clipped); an integer that no float can hold is none."""
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**53) <= value <= 2**53
    return isinstance(value, float) and not math.isnan(value)


def _checked_state(state: Mapping[str, Array]) -> dict[str, Array]:
    """Finite numbers, complete: a mean, a variance of its shape and a count for every name."""
    parts: dict[str, dict[str, Array]] = {}
    for name, values in state.items():
        if not np.isfinite(values).all():
            raise ModelFileError(f"its statistics {brief(name)} hold NaN or infinity")
        if name != "returns":
            owner, _, part = name.rpartition(".")
            parts.setdefault(owner, {})[part] = values
    for owner, found in parts.items():
        if owner not in ("ret_rms", "obs_rms") and not owner.startswith("obs_rms/"):
            raise ModelFileError(f"it holds statistics of {brief(owner)}, which VecNormalize does not have")
        if found.keys() != set(PARTS) or found["mean"].shape != found["var"].shape or found["count"].shape != ():
            raise ModelFileError(f"its statistics of {brief(owner)} are no mean, variance and single count")
    if "ret_rms" not in parts:
        raise ModelFileError("it lacks the statistics of returns")
    return dict(state)
