"""Model files of Stable-Baselines3 and sb3-contrib: to a model of the library, and from one."""

from __future__ import annotations

import base64
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.errors import ModelFileError
from proximo.files.atomic import replacing
from proximo.files.encoding import class_name
from proximo.files.fields import supply_fields
from proximo.files.inert_values import inert_value
from proximo.files.known_values import FOREIGN_NAMES
from proximo.files.plain_text import brief
from proximo.files.restricted_pickle import Inert, Made, Name, write_pickle
from proximo.files.sb3_archive import SERIALIZED, TYPE, VERSION_MEMBER, Sb3Archive, is_sb3_archive, read_sb3_archive
from proximo.files.zips import Source, opened, write_zip
from proximo.functional.schedules import ConstantSchedule, FloatSchedule, LinearSchedule, known_schedule
from proximo.version import __version__

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

OFF_POLICY = "an off-policy algorithm"
REQUIRED = ("observation_space", "action_space", "policy_class")
WRITTEN_VERSION = "2.9.2"  # of Stable-Baselines3, whose files ours are like
# how torch runs an optimiser is decided here, not in a file
_WAYS_TO_RUN = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})


# ---------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class ForeignModel:
    """A file's values, in the library's words, and its weights."""

    archive: Sb3Archive
    fields: dict[str, Any]

    def parameters(self, policy: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
        """State dictionaries for a policy of the library and its optimiser."""
        return {
            "policy": _with_all_names(self.archive.policy, policy),
            "policy.optimizer": _optimizer_state(self.archive, policy, optimizer),
        }


def is_foreign(path: Source) -> bool:
    """Whether a model file is one of Stable-Baselines3's; damaged files are not, and whoever reads them will say so."""
    with opened(path) as (stream, _):
        return stream.seekable() and is_sb3_archive(stream)


def read_foreign(
    path: Source,
    model_class: type[OnPolicyAlgorithm],
    names: Sequence[str],
    custom_objects: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read a file for ``model_class``, whose fields are ``names``; what is code comes from ``custom_objects``."""
    archive = read_sb3_archive(path)
    saved = algorithm_of(archive)
    _check_family(saved, model_class, path)
    try:
        fields = archive.fields(names)
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {path}: {error}") from error.__cause__
    for name in REQUIRED:
        if name in names and name not in archive.needs:
            fields.setdefault(name, None)
    complete = supply_fields(fields, archive.needs, custom_objects, loader=f"{model_class.__name__}.load")
    missing = [name for name in REQUIRED if name in names and complete.get(name) is None]
    if missing:
        raise ModelFileError(
            f"{path} lacks {', '.join(missing)}, as files of very old versions do; load it with the version that "
            "wrote it and save it again, or supply them in custom_objects"
        )
    return ForeignModel(archive, _adjusted_fields(complete, names))


def algorithm_of(archive: Sb3Archive) -> str:
    """Which algorithm saved a file: it does not say so, but its fields and its policy do."""
    data = archive.data
    if "n_steps" not in data or "gae_lambda" not in data:
        return OFF_POLICY
    if "cg_max_steps" in data:
        return "TRPO"
    if "clip_range" not in data:
        return "A2C"
    policy = data.get("policy_class")
    module = policy.get("__module__") if isinstance(policy, dict) else None
    return {
        "sb3_contrib.common.recurrent.policies": "RecurrentPPO",
        "sb3_contrib.common.maskable.policies": "MaskablePPO",
    }.get(module if isinstance(module, str) else "", "PPO")


def check_on_policy(saved: str, path: object) -> None:
    if saved == OFF_POLICY:
        raise ModelFileError(
            f"{path} holds a model of {OFF_POLICY} of Stable-Baselines3 (DQN, say), which Proximo does not have; load "
            "it with Stable-Baselines3"
        )


def _check_family(saved: str, model_class: type[OnPolicyAlgorithm], path: object) -> None:
    check_on_policy(saved, path)
    family = "PPO" if saved.endswith("PPO") else saved
    if model_class.config_class.__name__ != f"{family}Config":
        raise ModelFileError(
            f"{path} holds a model of Stable-Baselines3 that {saved} trained; load it with {saved}.load, not "
            f"{model_class.__name__}.load"
        )


def _adjusted_fields(saved: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Adjust what the two libraries keep differently."""
    fields = dict(saved)
    policy_kwargs = fields.get("policy_kwargs") or {}
    if not isinstance(policy_kwargs, dict):
        raise ModelFileError(f"policy_kwargs of the model is {brief(policy_kwargs)}; expected a dictionary")
    policy_kwargs = dict(policy_kwargs)
    policy_kwargs.pop("device", None)
    architecture = policy_kwargs.get("net_arch")
    if isinstance(architecture, list) and architecture and isinstance(architecture[0], dict):
        policy_kwargs["net_arch"] = architecture[0]  # as versions before 1.8 wrote it
    fields["policy_kwargs"] = policy_kwargs
    fields["rollout_buffer_kwargs"] = fields.get("rollout_buffer_kwargs") or {}
    if fields.get("rollout_buffer_class") is None:
        fields.pop("rollout_buffer_class", None)  # the default
    progress = fields.get("_current_progress_remaining")
    if isinstance(progress, float):
        fields["_current_progress_remaining"] = max(progress, 0.0)  # a last rollout may overshoot
    if "use_rms_prop" in names and "use_rms_prop" not in fields:  # Stable-Baselines3 forgets these arguments
        fields["use_rms_prop"] = getattr(policy_kwargs.get("optimizer_class"), "__name__", "Adam").startswith("RMS")
        optimizer_kwargs = policy_kwargs.get("optimizer_kwargs")
        if isinstance(optimizer_kwargs, dict) and fields["use_rms_prop"] and "eps" in optimizer_kwargs:
            fields["rms_prop_eps"] = optimizer_kwargs["eps"]
    return fields


def _optimizer_state(archive: Sb3Archive, policy: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimiser's state, its parameters numbered as here: a file numbers them in the order of its own policy."""
    here = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    there = _parameters_in_file_order(archive.policy, policy)
    groups, states = archive.optimizer.get("param_groups"), archive.optimizer.get("state")
    if not (isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict) and isinstance(states, dict)):
        raise ModelFileError("policy.optimizer.pth is missing, or not the state of an optimiser with one group")
    if len(optimizer.param_groups) != 1 or {id(p) for p in here} != {id(p) for p in there}:
        raise ModelFileError("the optimiser's parameters are not those of the policy")
    index_here = {id(parameter): index for index, parameter in enumerate(here)}
    renumbered = {}
    for index, state in states.items():
        if not isinstance(index, int) or not 0 <= index < len(there) or not isinstance(state, dict):
            raise ModelFileError(f"policy.optimizer.pth has a state for the parameter {brief(index)}, which is none")
        renumbered[index_here[id(there[index])]] = _checked_state(state, there[index])
    current = optimizer.state_dict()["param_groups"][0]
    return {"state": renumbered, "param_groups": [{**current, **known_options(groups[0], current)}]}


def known_options(saved: Mapping[Any, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group of parameters that the optimiser has here; how torch runs it is not a file's to say."""
    return {
        name: value
        for name, value in saved.items()
        if name in current and name not in _WAYS_TO_RUN and _is_option(value)
    }


def _with_all_names(weights: Mapping[str, Any], policy: nn.Module) -> dict[str, Any]:
    """Weights under all their names: before version 1.7 a shared features extractor had only one."""
    own = policy.state_dict(keep_vars=True)
    by_identity = {id(own[name]): weights[name] for name in weights if name in own}
    aliases = {name: by_identity[id(value)] for name, value in own.items() if id(value) in by_identity}
    return {**aliases, **weights}


def _parameters_in_file_order(weights: Mapping[str, Any], policy: nn.Module) -> list[nn.Parameter]:
    """The policy's parameters as the file lists them; one with several names counts once."""
    own = policy.state_dict(keep_vars=True)
    parameters = {id(own[name]): own[name] for name in weights if isinstance(own.get(name), nn.Parameter)}
    return list(parameters.values())


def _checked_state(state: Mapping[Any, Any], parameter: nn.Parameter) -> dict[str, Any]:
    for name, value in state.items():
        fits = value.shape in ((), parameter.shape) if isinstance(value, Tensor) else _is_option(value)
        if not isinstance(name, str) or not fits:
            raise ModelFileError(f"policy.optimizer.pth: {brief(name)} does not fit a parameter of {parameter.shape}")
    return dict(state)


def _is_option(value: Any) -> bool:
    parts = value if isinstance(value, tuple) and len(value) <= 8 else (value,)
    return value is None or all(
        isinstance(part, float) or (isinstance(part, int) and abs(part) < 2**53) for part in parts
    )


# ---------------------------------------------------------------------------------------------------------- writing


def write_foreign(model: OnPolicyAlgorithm, path: str | Path) -> str:
    """Write a model as a file that Stable-Baselines3 (or sb3-contrib) loads; returns the class to load it with.

    What the other library has no equal for is a ``ValueError`` that names it.
    """
    target = Path(path) if Path(path).suffix else Path(f"{path}.zip")
    loader, data = _written_fields(model)
    optimizer = model.policy.optimizer.state_dict()
    members = {
        "data": json.dumps(data, indent=4).encode(),
        "pytorch_variables.pth": _saved({}),
        "policy.pth": _saved(dict(model.policy.state_dict())),
        "policy.optimizer.pth": _saved({**optimizer, "param_groups": [_plain_group(optimizer["param_groups"])]}),
        VERSION_MEMBER: WRITTEN_VERSION.encode(),
        "system_info.txt": f"- Written by Proximo {__version__}\n- PyTorch: {torch.__version__}\n".encode(),
    }
    with replacing(target) as stream:
        write_zip(stream, members)
    return loader


def _warn_of_what_is_left_out(model: OnPolicyAlgorithm) -> None:
    """Intrinsic rewards and augmentations matter to training alone, unless the network has a value for them."""
    if model.intrinsic_reward is not None and model.intrinsic_reward.own_value:
        raise ValueError(
            f"Stable-Baselines3's policies have one value, this one has a second for {model.intrinsic_reward!r}"
        )
    if model.return_moments.count:
        raise ValueError(
            "Stable-Baselines3 has no normalize_returns, and the value of this model is in units of its returns; set "
            "model.normalize_returns = False, learn() one more rollout, and convert that"
        )
    for name in ("intrinsic_reward", "augmentation"):
        if (part := getattr(model, name)) is not None:
            warnings.warn(f"Stable-Baselines3 has no {name}: {part!r} is left out", stacklevel=4)


def _written_fields(model: OnPolicyAlgorithm) -> tuple[str, dict[str, Any]]:
    policy = _foreign_name(model.policy_class, "the policy")
    family = {"sb3_contrib.common.recurrent.policies": "Recurrent", "sb3_contrib.common.maskable.policies": "Maskable"}
    prefix = family.get(policy.module, "")
    algorithm = model.config_class.__name__.removesuffix("Config")
    if algorithm not in ("PPO", "A2C", "TRPO") or (prefix and algorithm != "PPO"):
        raise ValueError(
            f"Stable-Baselines3 has no {prefix}{algorithm}; only PPO, A2C and TRPO models can be converted"
        )
    if isinstance(model.action_space, spaces.Dict | spaces.Tuple):
        raise ValueError(f"Stable-Baselines3 has no actions of {type(model.action_space).__name__} spaces")
    _warn_of_what_is_left_out(model)
    hyperparameters = {
        name: _schedule(name, getattr(model, name))
        for name in model.config_class.__dataclass_fields__
        if name
        not in (
            "use_rms_prop",
            "rms_prop_eps",
            "aug_coef",
            "normalize_returns",
        )  # the policy's arguments hold the first two
    }
    kwargs = {name: _argument(value, f"policy_kwargs[{name!r}]") for name, value in model.policy_kwargs.items()}
    data = {
        "policy_class": policy,
        "verbose": model.verbose,
        "policy_kwargs": kwargs,
        "num_timesteps": model.num_timesteps,
        "_total_timesteps": model._total_timesteps,
        "_num_timesteps_at_start": 0,
        "seed": model.seed,
        "action_noise": None,
        "start_time": 0.0,
        "tensorboard_log": None if model.tensorboard_log is None else str(model.tensorboard_log),
        "_last_obs": None,
        "_last_episode_starts": None,
        "_last_original_obs": None,
        "_episode_num": 0,
        "use_sde": model.use_sde,
        "sde_sample_freq": model.sde_sample_freq,
        "_current_progress_remaining": model._current_progress_remaining,
        "_stats_window_size": model._stats_window_size,
        "ep_info_buffer": None,
        "ep_success_buffer": None,
        "_n_updates": model._n_updates,
        "observation_space": inert_value(model.observation_space),
        "action_space": inert_value(model.action_space),
        "n_envs": model.n_envs,
        "rollout_buffer_class": _foreign_buffer(model, prefix),
        "rollout_buffer_kwargs": {},
        **hyperparameters,
    }
    package = "sb3_contrib" if prefix or algorithm == "TRPO" else "stable_baselines3"
    return f"{package}.{prefix}{algorithm}", {name: _field(value) for name, value in data.items()}


def _field(value: Inert) -> Any:
    """A field of ``data``: as JSON where it has a form, else as a pickle of names and plain values."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        kind = value.function if isinstance(value, Made) else type(value).__name__
        return {TYPE: f"<class '{kind}'>", SERIALIZED: base64.b64encode(write_pickle(value)).decode()}
    return value


def _foreign_buffer(model: OnPolicyAlgorithm, prefix: str) -> Name | None:
    if class_name(model.rollout_buffer_class) != "RolloutBuffer":
        raise ValueError(f"Stable-Baselines3 knows no {model.rollout_buffer_class.__name__}; use the common buffer")
    if prefix == "Recurrent":
        return None
    module = "sb3_contrib.common.maskable.buffers" if prefix else "stable_baselines3.common.buffers"
    form = "Dict" if isinstance(model.observation_space, spaces.Dict) else ""
    return Name(module, f"{prefix}{form}RolloutBuffer")


def _foreign_name(cls: type, what: str) -> Name:
    bare = class_name(cls)
    if bare not in FOREIGN_NAMES:
        raise ValueError(f"{what} is {cls.__name__}, which Stable-Baselines3 does not have; it cannot be converted")
    return FOREIGN_NAMES[bare]


def _argument(value: Any, what: str) -> Inert:
    """An argument of the policy: plain values, and classes by the other library's names."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case type():
            return _foreign_name(value, what)
        case dict():
            return {str(key): _argument(item, f"{what}[{key!r}]") for key, item in value.items()}
        case list() | tuple():
            return type(value)(_argument(item, what) for item in value)
    raise ValueError(f"{what} is a {type(value).__name__}, which cannot be converted to a file of Stable-Baselines3")


def _schedule(name: str, value: Any) -> Inert:
    match known_schedule(value):
        case None | bool() | int() | float():
            return value
        case ConstantSchedule(val=number):
            return number
        case FloatSchedule(value_schedule=inner):
            return _schedule(name, inner)
        case LinearSchedule(start=start, end=end, end_fraction=fraction):
            state = {"start": start, "end": end, "end_fraction": fraction}
            return Made(Name("stable_baselines3.common.utils", "LinearSchedule"), (), state=state)
    if isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, which Stable-Baselines3 does not know; set model.{name} to a number")
    raise ValueError(
        f"{name} is a function of your own, which a file cannot hold; set model.{name} to a number or a LinearSchedule"
    )


def _plain_group(groups: list[dict[str, Any]]) -> dict[str, Any]:
    if len(groups) != 1:
        raise ValueError(f"the optimiser has {len(groups)} groups of parameters; Stable-Baselines3 has one")
    ways = {"foreach": None, "fused": None, "capturable": False, "differentiable": False}
    return {name: ways.get(name, value) for name, value in groups[0].items()}


def _saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(_apart(value), stream)
    return stream.getvalue()


def _apart(value: Any) -> Any:
    """Copies of all tensors: views of one flat memory would each write all of it. One tensor stays one."""
    copies: dict[tuple[int, torch.Size], Tensor] = {}

    def copy(part: Any) -> Any:
        match part:
            case Tensor():
                key = (part.data_ptr(), part.shape)
                return copies.setdefault(key, part.detach().cpu().clone(memory_format=torch.contiguous_format))
            case dict():
                return {name: copy(item) for name, item in part.items()}
            case list():
                return [copy(item) for item in part]
        return part

    return copy(value)
