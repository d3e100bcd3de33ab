"""A model to a file and back: hyperparameters as JSON, weights and statistics as tensors, never code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import torch

from proximo.config import RENAMED
from proximo.envs import as_vec_env
from proximo.errors import ModelFileError, near_matches
from proximo.exploration import check_reward_size
from proximo.files.archive import read_archive, write_archive
from proximo.files.encoding import decode, encode
from proximo.files.fields import decode_fields, encode_fields
from proximo.functional.spaces import check_for_correct_spaces
from proximo.networks import decoupled, maskable, phasic, published_encoders, recurrent
from proximo.networks.network_size import UNBUILDABLE, check_network_size
from proximo.version import __version__

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

Agent = TypeVar("Agent", bound="OnPolicyAlgorithm")

# imported so that their classes are registered: a file may name any policy or encoder of the library
NETWORK_MODULES = (decoupled, maskable, phasic, published_encoders, recurrent)

COMMON_FIELDS = (
    "policy_class",
    "policy_kwargs",
    "use_sde",
    "sde_sample_freq",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
    "learner_class",
    "intrinsic_reward",
    "augmentation",
    "precision",
    "tensorboard_log",
    "verbose",
    "seed",
    "observation_space",
    "action_space",
    "n_envs",
    "num_timesteps",
    "_stats_window_size",
    "_backend_choice",
    "_total_timesteps",
    "_current_progress_remaining",
    "_n_updates",
)


def field_names(model_class: type[OnPolicyAlgorithm]) -> tuple[str, ...]:
    """Names of the attributes that a model file holds."""
    return (*model_class.config_class.names(), *COMMON_FIELDS)


def save(
    model: OnPolicyAlgorithm,
    path: str | Path | BinaryIO,
    exclude: Iterable[str] | None = None,
    include: Iterable[str] | None = None,
    training_state: Mapping[str, Any] | None = None,
) -> None:
    """Write the model file; with a training state (``persistence/training_state.py``) it is a checkpoint."""
    names = (set(field_names(type(model))) - set(exclude or ())) | set(include or ())
    fields, needs = encode_fields({name: getattr(model, name) for name in sorted(names)})
    tensors: dict[str, Mapping[str, torch.Tensor]] = {"policy": model.policy.state_dict()}
    optimizer = model.policy.optimizer.state_dict()
    tensors["optimizer"] = flatten_state(optimizer["state"])
    if own := model._own_tensors():
        tensors["algorithm"] = own
    if (statistics := model.normalizer_statistics()) is not None:
        tensors["normalizer"] = {name: torch.as_tensor(np.asarray(value)) for name, value in statistics.items()}
    manifest: dict[str, Any] = {
        "content": "model",
        "algorithm": type(model).__name__,
        "family": model.config_class.__name__,  # a subclass of PPO may read a PPO's file, and the other way round
        "proximo_version": __version__,
        "fields": fields,
        "needs": needs,
        "optimizer_groups": encode(optimizer["param_groups"]),
        "generator": encode(model.generator.bit_generator.state),
    }
    if training_state is not None:  # the state of an intrinsic reward is in it
        stored: dict[str, torch.Tensor] = {}
        manifest["training_state"], tensors["training_state"] = encode(training_state, stored), stored
    elif model.intrinsic_reward is not None and "intrinsic_reward" in names:
        of_reward: dict[str, torch.Tensor] = {}
        state = model.intrinsic_reward.state_dict()
        manifest["intrinsic_reward"], tensors["intrinsic_reward"] = encode(state, of_reward), of_reward
    write_archive(path, manifest, tensors)


def load(
    model_class: type[Agent],
    path: str | Path | BinaryIO,
    env: Any = None,
    device: torch.device | str = "auto",
    custom_objects: dict[str, Any] | None = None,
    *,
    print_system_info: bool = False,
    force_reset: bool = True,
    **overrides: Any,
) -> Agent:
    from proximo.persistence import sb3_files  # only reading a file needs it, and training should start soon

    manifest: dict[str, Any]
    if sb3_files.is_foreign(path):
        return _load_foreign(model_class, path, env, device, custom_objects, overrides, print_system_info)
    manifest, tensors = read_archive(path)
    _check_content(manifest, path, model_class)
    if print_system_info:
        print(f"saved by Proximo {manifest.get('proximo_version')}, this is {__version__}")  # noqa: T201
    fields = decode_fields(manifest["fields"], manifest["needs"], custom_objects, loader=f"{model_class.__name__}.load")
    fields = {RENAMED.get(name, name): value for name, value in fields.items()}
    model = _built(model_class, path, fields, overrides, device)
    if "normalizer" in tensors:
        model._loaded_statistics = {name: tensor.numpy() for name, tensor in tensors["normalizer"].items()}
    if env is not None:
        _attach_env(model, env)
    with _blaming(path):
        _check_network_size(model, tensors["policy"])
        reward_state = _reward_state(model, manifest, tensors)
        model._setup_model()
        _take_over(model, manifest, tensors, reward_state)
    if "training_state" in (custom_objects or {}):
        model._training_state = None
    return model


def load_into(model: OnPolicyAlgorithm, path: str | Path | BinaryIO) -> None:
    """Go on from a file in a model that is built already, with the arguments that the saved one was built with.

    Weights, optimisers, counters and a checkpoint's training state are taken over, hyperparameters are the model's own.
    """
    manifest: dict[str, Any]
    manifest, tensors = read_archive(path)
    _check_content(manifest, path, type(model))
    with _blaming(path):
        _take_over(model, manifest, tensors, _reward_state(model, manifest, tensors))
        for name in ("num_timesteps", "_total_timesteps", "_n_updates"):
            setattr(model, name, decode(manifest["fields"][name]))
    if (normalizer := model.get_vec_normalize_env()) is not None and "normalizer" in tensors:
        normalizer.load_state({name: tensor.numpy() for name, tensor in tensors["normalizer"].items()})


def _take_over(
    model: OnPolicyAlgorithm,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Any],
    reward_state: Mapping[str, Any] | None,
) -> None:
    """Weights, optimisers, random generator and training state of a file, into a network of the same shape."""
    set_parameters(model, _parameters(manifest, tensors), exact_match=True)
    model._load_own_tensors(tensors.get("algorithm", {}))
    if model.intrinsic_reward is not None and reward_state is not None:
        model.intrinsic_reward.load_state_dict(reward_state)
    model.generator.bit_generator.state = decode(manifest["generator"])
    if "training_state" in manifest:
        model._training_state = decode(manifest["training_state"], tensors["training_state"])


def _load_foreign(
    model_class: type[Agent],
    path: str | Path | BinaryIO,
    env: Any,
    device: torch.device | str,
    custom_objects: Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    print_system_info: bool,
) -> Agent:
    """A model of Stable-Baselines3's or sb3-contrib's, with its optimiser's state."""
    from proximo.persistence import sb3_files

    foreign = sb3_files.read_foreign(path, model_class, field_names(model_class), custom_objects)
    if print_system_info:
        print(f"saved by Stable-Baselines3 {foreign.archive.version}\n{foreign.archive.system}")  # noqa: T201
    model = _built(model_class, path, foreign.fields, overrides, device)
    if env is not None:
        _attach_env(model, env)
    with _blaming(path):
        _check_network_size(model, foreign.archive.policy)
        model._setup_model()
        set_parameters(model, foreign.parameters(model.policy, model.policy.optimizer), exact_match=True)
    return model


def _check_network_size(model: OnPolicyAlgorithm, weights: Mapping[str, Any]) -> None:
    check_network_size(model.policy_class, model.policy_arguments(), weights)


def _reward_state(
    model: OnPolicyAlgorithm, manifest: Mapping[str, Any], tensors: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """What an intrinsic reward had learned; checked to be as large as the reward that the file describes."""
    if model.intrinsic_reward is None:
        return None
    name = "intrinsic_reward"
    if name in manifest:
        state = decode(manifest[name], tensors[name])
    elif name in (parts := manifest.get("training_state", {}).get("parts", {})):
        state = decode(parts[name], tensors["training_state"])
    else:
        return None  # the caller has added it to a model that had none
    check_reward_size(model.intrinsic_reward, state, model.observation_space, model.action_space)
    return state


def _built(
    model_class: type[Agent],
    path: object,
    fields: dict[str, Any],
    overrides: Mapping[str, Any],
    device: torch.device | str,
) -> Agent:
    """A model with its hyperparameters and spaces, still without networks."""
    _apply_overrides(fields, overrides, field_names(model_class))
    if overrides:
        _check_hyperparameters(model_class, fields)  # a bad override is the caller's fault, not the file's
    with _blaming(path):
        return _with_fields(model_class, fields, device)


@contextmanager
def _blaming(path: object) -> Iterator[None]:
    """What a file says may be anything: every failure to build from it is the file's, and says so."""
    try:
        yield
    except UNBUILDABLE as error:
        raise ModelFileError(f"{path} describes no model that can be built: {type(error).__name__}: {error}") from error


def _with_fields(model_class: type[Agent], fields: Mapping[str, Any], device: torch.device | str) -> Agent:
    model = model_class(  # type: ignore[call-arg]
        policy=fields["policy_class"],
        env=None,
        stats_window_size=fields.get("_stats_window_size", 100),
        device=device,
        _init_setup_model=False,
    )
    known = field_names(model_class)
    for name, value in fields.items():
        if name not in known and hasattr(model_class, name):
            raise ValueError(f"the field {name!r} would replace a method")
        setattr(model, name, value)
    _check_hyperparameters(model_class, fields)
    model._check_spaces()
    return model


def _check_hyperparameters(model_class: type[OnPolicyAlgorithm], fields: Mapping[str, Any]) -> None:
    """Raise for what the constructor would refuse; a field that was not saved keeps its default."""
    model_class.config_class(**{name: fields[name] for name in model_class.config_class.names() if name in fields})


def _check_content(manifest: Mapping[str, Any], path: object, model_class: type[OnPolicyAlgorithm]) -> None:
    if manifest.get("content") != "model":
        raise ModelFileError(f"{path} holds a {manifest.get('content')!r}, not a model; load it with what saved it")
    saved, family = manifest.get("algorithm"), manifest.get("family")
    if family != model_class.config_class.__name__:
        raise ModelFileError(
            f"{path} holds a {saved} model; load it with {saved}.load, not {model_class.__name__}.load"
        )
    if not isinstance(manifest.get("fields"), dict) or not isinstance(manifest.get("needs"), dict):
        raise ModelFileError(f"{path} describes no model that can be built: it lacks fields or needs")


def _apply_overrides(fields: dict[str, Any], overrides: Mapping[str, Any], known: Iterable[str]) -> None:
    for name, value in overrides.items():
        if name not in known:
            raise TypeError(f"load() got an unknown argument {name!r}; {near_matches(name, known)}")
        if name == "policy_kwargs" and value != fields["policy_kwargs"]:
            raise ValueError(
                f"policy_kwargs {value} differ from the saved ones {fields['policy_kwargs']}; a saved network "
                "keeps its shape (leave policy_kwargs out, or make a new model)"
            )
        fields[name] = value


def _attach_env(model: OnPolicyAlgorithm, env: Any) -> None:
    wrapped = as_vec_env(env, verbose=model.verbose)
    check_for_correct_spaces(wrapped, model.observation_space, model.action_space)
    model._take_env(wrapped)


def flatten_state(state: Mapping[int, Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Optimiser state as flat names: {0: {"exp_avg": t}} → {"0.exp_avg": t}."""
    return {
        f"{index}.{name}": torch.as_tensor(value) for index, entry in state.items() for name, value in entry.items()
    }


def unflatten_state(flat: Mapping[str, torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        index, _, name = key.partition(".")
        if not index.isdigit():
            raise ModelFileError(f"optimiser state has the unknown entry {key!r}")
        state.setdefault(int(index), {})[name] = value
    return state


def _parameters(manifest: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    groups = decode(manifest["optimizer_groups"])
    return {
        "policy": tensors["policy"],
        "policy.optimizer": {"state": unflatten_state(tensors["optimizer"]), "param_groups": groups},
    }


def load_parameters(model: OnPolicyAlgorithm, path: str | Path, exact_match: bool) -> None:
    """Take weights and optimiser state from a model file."""
    with _blaming(path):
        set_parameters(model, read_parameters(path, model), exact_match)


def read_parameters(path: str | Path, model: OnPolicyAlgorithm) -> dict[str, dict[str, Any]]:
    """The state dictionaries of a model file, without building a model."""
    from proximo.persistence import sb3_files

    manifest: dict[str, Any]
    if sb3_files.is_foreign(path):
        foreign = sb3_files.read_foreign(path, type(model), ())
        return foreign.parameters(model.policy, model.policy.optimizer)
    manifest, tensors = read_archive(path)
    _check_content(manifest, path, type(model))
    return _parameters(manifest, tensors)


def set_parameters(model: OnPolicyAlgorithm, parameters: Mapping[str, Mapping[str, Any]], exact_match: bool) -> None:
    expected = {"policy", "policy.optimizer"}
    if unknown := parameters.keys() - expected:
        raise ValueError(f"unknown parameter groups {sorted(unknown)}; expected {sorted(expected)}")
    if exact_match and (missing := expected - parameters.keys()):
        raise ValueError(f"parameter groups {sorted(missing)} are missing; pass exact_match=False to load a part")
    if "policy" in parameters:
        try:
            model.policy.load_state_dict(parameters["policy"], strict=exact_match)
        except RuntimeError as error:
            raise ValueError(f"the weights do not fit this policy: {error}") from error
        if model.use_sde:
            model.policy.reset_noise(model.n_envs)  # as large as these weights say
    if "policy.optimizer" in parameters:
        model.policy.optimizer.load_state_dict(dict(parameters["policy.optimizer"]))
        model.runtime.bring_back_optimizer()  # a state that does not fit the weights is refused here, not in training
