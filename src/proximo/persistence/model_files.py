"""A model to a file and back: hyperparameters as JSON, weights and statistics as tensors, never code."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, get_args

import numpy as np
import torch
from gymnasium import spaces

from proximo import augmentation
from proximo.backends.base import BackendChoice, Precision
from proximo.config import COUNT, FRACTION, RENAMED, Check, numeric, plain_number
from proximo.envs import as_vec_env
from proximo.envs.state.plain import checked_generator_state
from proximo.errors import ModelFileError, UnfittingWeightsError, near_matches
from proximo.exploration import IntrinsicReward, check_reward_size
from proximo.files.archive import read_archive, write_archive
from proximo.files.budgets import Budgets
from proximo.files.encoding import decode, encode
from proximo.files.fields import decode_fields, encode_fields
from proximo.files.normalizer_file import checked_settings
from proximo.files.plain_text import brief, printable, shown
from proximo.functional.return_moments import ReturnMoments, stored_moments
from proximo.functional.schedules import KLAdaptiveRate
from proximo.functional.spaces import check_for_correct_spaces
from proximo.networks import decoupled, maskable, phasic, published_encoders, recurrent, trunk
from proximo.networks.network_size import UNBUILDABLE, check_network_size
from proximo.version import __version__

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

Agent = TypeVar("Agent", bound="OnPolicyAlgorithm")

# imported so that their classes are registered: a file may name any of the library's
NAMED_IN_FILES = (augmentation, decoupled, maskable, phasic, published_encoders, recurrent, trunk)

RATE = numeric(
    lambda value: KLAdaptiveRate.lowest <= value <= KLAdaptiveRate.highest,
    f"a learning rate from {KLAdaptiveRate.lowest} to {KLAdaptiveRate.highest}",
)
_WHOLE = Check(lambda value: type(value) is int and 0 <= value < 2**62, "a whole number from 0 on")
_ARGUMENTS = Check(
    lambda value: isinstance(value, dict) and all(isinstance(name, str) for name in value), "arguments by name"
)
_SPACE = Check(lambda value: isinstance(value, spaces.Space), "a space")
_CLASS = Check(lambda value: value is None or isinstance(value, type | str), "a class")


def _one_of(choices: Any) -> Check:
    names = get_args(choices)
    return Check(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}")


COMMON_FIELDS: dict[str, Check] = {
    "policy_class": _CLASS,
    "policy_kwargs": _ARGUMENTS,
    "use_sde": Check(lambda value: isinstance(value, bool), "true or false"),
    "sde_sample_freq": Check(lambda value: type(value) is int and -1 <= value < 2**62, "a number of steps, or -1"),
    "rollout_buffer_class": _CLASS,
    "rollout_buffer_kwargs": _ARGUMENTS,
    "learner_class": _CLASS,
    "intrinsic_reward": Check(lambda value: value is None or isinstance(value, IntrinsicReward), "an intrinsic reward"),
    "augmentation": Check(
        lambda value: value is None or isinstance(value, torch.nn.Module | Mapping), "an augmentation"
    ),
    "precision": _one_of(Precision),
    "distributed": Check(
        lambda value: isinstance(value, bool) or value in ("gathered", "sharded"), "true, false, gathered or sharded"
    ),
    "verbose": Check(lambda value: isinstance(value, int) and 0 <= value < 10, "0, 1 or 2"),
    "seed": Check(lambda value: value is None or (type(value) is int and 0 <= value < 2**32), "a number of 32 bits"),
    "observation_space": _SPACE,
    "action_space": _SPACE,
    "n_envs": Check(lambda value: COUNT.fits(value) and value <= 2**20, "a number of environments"),
    "num_timesteps": _WHOLE,
    "_stats_window_size": Check(lambda value: COUNT.fits(value) and value <= 2**20, "a number of episodes"),
    "_backend_choice": _one_of(BackendChoice),
    "_total_timesteps": _WHOLE,
    "_current_progress_remaining": FRACTION,
    "_n_updates": _WHOLE,
    "_adapted_rate": Check(lambda value: value is None or RATE.fits(value), f"none, or {RATE.expected}"),
    "_adapted_rate_of": Check(lambda value: value is None or isinstance(value, str), "none, or a text like kl_0.01"),
}
"""What a model file may set besides hyperparameters: numbers, and names from the library's tables."""

NOTED_FIELDS = ("tensorboard_log",)
"""What a model file tells and does not set: where ``learn`` writes is the caller's to say."""


def field_names(model_class: type[OnPolicyAlgorithm]) -> tuple[str, ...]:
    """Names of the attributes that a model file sets."""
    return (*model_class.config_class.names(), *COMMON_FIELDS, *model_class.saved_attributes)


def save(
    model: OnPolicyAlgorithm,
    path: str | Path | BinaryIO,
    exclude: Iterable[str] | None = None,
    include: Iterable[str] | None = None,
    training_state: Mapping[str, Any] | None = None,
) -> None:
    """Write the model file; with a training state (``persistence/training_state.py``) it is a checkpoint."""
    known = {*field_names(type(model)), *NOTED_FIELDS}
    if others := set(include or ()) - known:
        warnings.warn(
            f"{', '.join(sorted(others))} will be in the file, but load() sets only what the library or the class "
            f"knows: name it in {type(model).__name__}.saved_attributes",
            stacklevel=3,
        )
    names = (known - set(exclude or ())) | set(include or ())
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
    if (settings := model.normalizer_settings()) is not None:
        manifest["normalizer"] = encode(settings)
    if training_state is not None:  # the state of an intrinsic reward is in it
        stored: dict[str, torch.Tensor] = {}
        manifest["training_state"], tensors["training_state"] = encode(training_state, stored), stored
    elif model.intrinsic_reward is not None and "intrinsic_reward" in names:
        of_reward: dict[str, torch.Tensor] = {}
        state = model.intrinsic_reward.state_dict()
        manifest["intrinsic_reward"], tensors["intrinsic_reward"] = encode(state, of_reward), of_reward
    # whoever goes on from a checkpoint says how much of it may be read: it may hold the rollouts of a phase
    write_archive(path, manifest, tensors, Budgets() if training_state is None else Budgets(total_bytes=2**62))


def load(
    model_class: type[Agent],
    path: str | Path | BinaryIO,
    env: Any = None,
    device: torch.device | str = "auto",
    custom_objects: dict[str, Any] | None = None,
    *,
    print_system_info: bool = False,
    force_reset: bool = True,
    max_bytes: int | None = None,
    **overrides: Any,
) -> Agent:
    from proximo.persistence import sb3_files  # only reading a file needs it, and training should start soon

    manifest: dict[str, Any]
    custom_objects = _supplied(custom_objects, overrides)
    if sb3_files.is_foreign(path):
        return _load_foreign(model_class, path, env, device, custom_objects, overrides, print_system_info)
    budgets = Budgets() if max_bytes is None else Budgets(total_bytes=max_bytes)
    manifest, tensors = read_archive(path, budgets)
    _check_content(manifest, path, model_class)
    if print_system_info:
        saved_by = printable(str(manifest.get("proximo_version")))
        print(f"saved by Proximo {saved_by}, this is {__version__}")  # noqa: T201
    loader = f"{model_class.__name__}.load"
    fields = decode_fields(manifest["fields"], manifest["needs"], custom_objects, loader, budgets)
    fields = {RENAMED.get(name, name): value for name, value in fields.items()}
    model = _built(model_class, path, fields, {**(custom_objects or {}), **overrides}, overrides, device)
    if "normalizer" in tensors:
        model._loaded_statistics = {name: tensor.numpy() for name, tensor in tensors["normalizer"].items()}
        if "normalizer" in manifest:  # files of 0.1.0 lack it
            model._loaded_settings = checked_settings(decode(manifest["normalizer"], budgets=budgets))
    if env is not None:
        _attach_env(model, env)
    with _blaming(path):
        _check_network_size(model, tensors["policy"])
        reward_state = _reward_state(model, manifest, tensors, budgets)
        model._setup_model()
        _take_over(
            model, manifest, tensors, reward_state, budgets, exact="training_state" not in (custom_objects or {})
        )
    return model


def load_into(model: OnPolicyAlgorithm, path: str | Path | BinaryIO) -> None:
    """Go on from a file in a model that is built already, with the arguments that the saved one was built with.

    Weights, optimisers, counters and a checkpoint's training state are taken over, hyperparameters are the model's own.
    """
    manifest: dict[str, Any]
    budgets = Budgets()
    manifest, tensors = read_archive(path, budgets)
    _check_content(manifest, path, type(model))
    with _blaming(path):
        _take_over(model, manifest, tensors, _reward_state(model, manifest, tensors, budgets), budgets)
        for name in ("num_timesteps", "_total_timesteps", "_n_updates"):
            value = decode(manifest["fields"][name], budgets=budgets)
            if not _WHOLE.fits(value):
                raise ValueError(f"{name} is {brief(value)}; expected {_WHOLE.expected}")
            setattr(model, name, value)
    if (normalizer := model.get_vec_normalize_env()) is not None and "normalizer" in tensors:
        normalizer.load_state({name: tensor.numpy() for name, tensor in tensors["normalizer"].items()})


def _take_over(
    model: OnPolicyAlgorithm,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Any],
    reward_state: Mapping[str, Any] | None,
    budgets: Budgets,
    exact: bool = True,
) -> None:
    """Weights, optimisers, random generator and training state of a file, into a network of the same shape."""
    set_parameters(model, _parameters(manifest, tensors, model, budgets), exact_match=True)
    model._load_own_tensors(tensors.get("algorithm", {}))
    if model.intrinsic_reward is not None and reward_state is not None:
        model.intrinsic_reward.load_state_dict(reward_state)
    model.generator.bit_generator.state = checked_generator_state(decode(manifest["generator"], budgets=budgets))
    if "training_state" in manifest and exact:
        model._training_state = decode(manifest["training_state"], tensors["training_state"], budgets, copy=False)


def _supplied(custom_objects: dict[str, Any] | None, overrides: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the caller gives in place of a file's values: an override need not be in ``custom_objects`` too."""
    if custom_objects is not None and not isinstance(custom_objects, Mapping):
        return custom_objects  # refused by who reads it
    given = {name: value for name, value in overrides.items() if name != "policy_kwargs"}  # compared with the saved
    return {**given, **(custom_objects or {})} or None


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
        about = [f"saved by Stable-Baselines3 {foreign.archive.version}", *foreign.archive.system.splitlines()]
        print("\n".join(map(printable, about)))  # noqa: T201
    noted = {name: foreign.archive.data.get(name) for name in NOTED_FIELDS}
    given = {**(custom_objects or {}), **overrides}
    model = _built(model_class, path, {**foreign.fields, **noted}, given, overrides, device)
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
    model: OnPolicyAlgorithm, manifest: Mapping[str, Any], tensors: Mapping[str, Any], budgets: Budgets
) -> Mapping[str, Any] | None:
    """What an intrinsic reward had learned; checked to be as large as the reward that the file describes."""
    if model.intrinsic_reward is None:
        return None
    name = "intrinsic_reward"
    if name in manifest:
        state = decode(manifest[name], tensors[name], budgets)
    elif name in (parts := manifest.get("training_state", {}).get("parts", {})):
        state = decode(parts[name], tensors["training_state"], budgets)
    else:
        return None  # the caller has added it to a model that had none
    check_reward_size(model.intrinsic_reward, state, model.observation_space, model.action_space)
    return state


def _built(
    model_class: type[Agent],
    path: object,
    fields: dict[str, Any],
    given: Mapping[str, Any],
    overrides: Mapping[str, Any],
    device: torch.device | str,
) -> Agent:
    """A model with its hyperparameters and spaces, still without networks."""
    noted = {name: fields.pop(name, None) for name in NOTED_FIELDS}
    _apply_overrides(fields, overrides, (*field_names(model_class), *NOTED_FIELDS))
    if overrides:
        _check_hyperparameters(model_class, fields)  # a bad override is the caller's fault, not the file's
    with _blaming(path):
        model = _with_fields(model_class, fields, device)
    for name, value in noted.items():
        if name in given:
            setattr(model, name, given[name])
        elif value is not None:
            warnings.warn(
                f"{path} was saved with {name}={_text_of(value)}; a file does not decide where learn() writes: "
                f"load(…, {name}=…) does",
                stacklevel=4,
            )
    return model


def _text_of(value: Any) -> str:
    return brief(str(value) if isinstance(value, Path) else value)


@contextmanager
def _blaming(path: object) -> Iterator[None]:
    """What a file says may be anything: every failure to build from it is the file's, and says so."""
    try:
        yield
    except UNBUILDABLE as error:
        reason = f"{type(error).__name__}: {printable(str(error), 1000)}"
        raise ModelFileError(f"{path} describes no model that can be built: {reason}") from error


def _with_fields(model_class: type[Agent], fields: Mapping[str, Any], device: torch.device | str) -> Agent:
    plain = {name: plain_number(value) for name, value in fields.items()}
    for name, check in COMMON_FIELDS.items():
        if name in plain and not check.fits(plain[name]):
            raise ValueError(f"{name} is {brief(plain[name])}; expected {check.expected}")
    model = model_class(  # type: ignore[call-arg]
        policy=fields["policy_class"],
        env=None,
        stats_window_size=plain.get("_stats_window_size", 100),
        rollout_buffer_class=plain.get("rollout_buffer_class"),
        device=device,
        _init_setup_model=False,
    )
    known = (*field_names(model_class), *NOTED_FIELDS)
    if replaced := [name for name in plain if name not in known and hasattr(model_class, name)]:
        raise ValueError(f"its fields {shown(replaced)} would replace what the class defines")
    if others := [name for name in plain if name not in known]:
        warnings.warn(
            f"the file also holds {shown(others)}, which is not set: a file sets what the library knows, and what "
            f"{model_class.__name__}.saved_attributes names",
            stacklevel=5,
        )
    for name in known:
        if name in plain:
            setattr(model, name, plain[name])
    _check_hyperparameters(model_class, plain)
    model._check_spaces()
    return model


def _check_hyperparameters(model_class: type[OnPolicyAlgorithm], fields: Mapping[str, Any]) -> None:
    """Raise for what the constructor would refuse; a field that was not saved keeps its default."""
    model_class.config_class(**{name: fields[name] for name in model_class.config_class.names() if name in fields})


def _check_content(manifest: Mapping[str, Any], path: object, model_class: type[OnPolicyAlgorithm]) -> None:
    if manifest.get("content") != "model":
        content = brief(manifest.get("content"))
        raise ModelFileError(f"{path} holds a {content}, not a model; load it with what saved it")
    saved, family = manifest.get("algorithm"), manifest.get("family")
    if family != model_class.config_class.__name__:
        name = saved[:60] if isinstance(saved, str) and saved.isidentifier() else "foreign"
        raise ModelFileError(f"{path} holds a {name} model; load it with {name}.load, not {model_class.__name__}.load")
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
        if not re.fullmatch(r"[0-9]{1,6}", index):
            raise ModelFileError(f"optimiser state has the unknown entry {brief(key)}")
        state.setdefault(int(index), {})[name] = value
    return state


def _parameters(
    manifest: Mapping[str, Any], tensors: Mapping[str, Any], model: OnPolicyAlgorithm, budgets: Budgets
) -> dict[str, dict[str, Any]]:
    from proximo.persistence.sb3_files import known_options

    saved = decode(manifest["optimizer_groups"], budgets=budgets)
    groups = model.policy.optimizer.state_dict()["param_groups"]
    if not isinstance(saved, list) or len(saved) != len(groups) or not all(isinstance(group, dict) for group in saved):
        raise ModelFileError("the optimiser's groups of parameters are not those of this policy")
    merged = [{**group, **known_options(options, group)} for options, group in zip(saved, groups, strict=True)]
    return {
        "policy": tensors["policy"],
        "policy.optimizer": {"state": unflatten_state(tensors["optimizer"]), "param_groups": merged},
    }


def load_parameters(model: OnPolicyAlgorithm, path: str | Path, exact_match: bool) -> None:
    """Take weights and optimiser state from a model file."""
    with _blaming(path):
        parameters, units = read_parameters(path, model)
        model._use_units(units)
        set_parameters(model, parameters, exact_match)


def read_parameters(path: str | Path, model: OnPolicyAlgorithm) -> tuple[dict[str, dict[str, Any]], ReturnMoments]:
    """The state dictionaries of a model file, without building a model, and the units that its value is in."""
    from proximo.persistence import sb3_files

    manifest: dict[str, Any]
    if sb3_files.is_foreign(path):
        foreign = sb3_files.read_foreign(path, type(model), ())
        return foreign.parameters(model.policy, model.policy.optimizer), ReturnMoments()
    budgets = Budgets()
    manifest, tensors = read_archive(path, budgets)
    _check_content(manifest, path, type(model))
    return _parameters(manifest, tensors, model, budgets), stored_moments(tensors.get("algorithm", {}))


def set_parameters(
    model: OnPolicyAlgorithm,
    parameters: Mapping[str, Mapping[str, Any]],
    exact_match: bool,
    strict: bool | None = None,
) -> None:
    """Take over groups of parameters: with ``exact_match`` all of them; ``strict`` asks for every weight."""
    expected = {"policy", "policy.optimizer"}
    if unknown := parameters.keys() - expected:
        raise ValueError(f"unknown parameter groups {sorted(unknown)}; expected {sorted(expected)}")
    if exact_match and (missing := expected - parameters.keys()):
        raise ValueError(f"parameter groups {sorted(missing)} are missing; pass exact_match=False to load a part")
    if "policy" in parameters:
        try:
            model.policy.load_state_dict(parameters["policy"], strict=exact_match if strict is None else strict)
        except RuntimeError as error:
            raise UnfittingWeightsError(f"the weights do not fit this policy: {error}") from error
        if model.use_sde:
            # as large as these weights say; for the environments that are there, not for those that a file speaks of
            model.policy.reset_noise(1 if model.env is None else model.env.num_envs)
    if "policy.optimizer" in parameters:
        model.policy.optimizer.load_state_dict(dict(parameters["policy.optimizer"]))
        model.runtime.bring_back_optimizer()  # a state that does not fit the weights is refused here, not in training
