"""Small helpers that users' scripts ask for by name."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from proximo.data import Array, Observation
from proximo.envs import make_env
from proximo.functional.spaces import Space, check_for_nested_spaces
from proximo.version import __version__


def safe_mean(arr: Sequence[float] | Array) -> float:
    """The mean, or NaN of nothing.

    >>> safe_mean([]), safe_mean([1.0, 2.0])
    (nan, 1.5)
    """
    return float(np.mean(arr)) if len(arr) else float("nan")


def zip_strict(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """``zip`` that refuses iterables of different lengths."""
    return zip(*iterables, strict=True)


def update_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def get_parameters_by_name(model: torch.nn.Module, included_names: Iterable[str]) -> list[torch.Tensor]:
    """Entries of the state dictionary whose name contains one of ``included_names``."""
    wanted = tuple(included_names)
    return [value for name, value in model.state_dict().items() if any(part in name for part in wanted)]


@torch.no_grad()
def polyak_update(params: Iterable[torch.Tensor], target_params: Iterable[torch.Tensor], tau: float) -> None:
    """Move targets towards parameters, in place: target ← (1 − tau) · target + tau · parameter."""
    for source, target in zip(params, target_params, strict=True):
        target.lerp_(source, tau)


def check_shape_equal(space1: Space, space2: Space) -> None:
    """Raise when two Box spaces, or the parts of two Dict spaces, have different shapes."""
    if isinstance(space1, spaces.Dict):
        if not isinstance(space2, spaces.Dict) or space1.spaces.keys() != space2.spaces.keys():
            raise ValueError(f"expected a Dict space with the keys {sorted(space1.spaces)}, got {space2}")
        for key, part in space1.spaces.items():
            check_shape_equal(part, space2[key])
    elif isinstance(space1, spaces.Box) and space1.shape != space2.shape:
        raise ValueError(f"the spaces have different shapes: {space1.shape} and {space2.shape}")


def obs_space_info(
    obs_space: Space,
) -> tuple[list[Any], dict[Any, tuple[int, ...] | None], dict[Any, np.dtype[Any] | None]]:
    """Keys, shapes and dtypes of the parts of a space; one that has no parts has the single key None.

    >>> obs_space_info(spaces.Discrete(3))
    ([None], {None: ()}, {None: dtype('int64')})
    """
    check_for_nested_spaces(obs_space)
    parts: dict[Any, Space] = {None: obs_space}
    if isinstance(obs_space, spaces.Dict):
        parts = dict(obs_space.spaces)
    elif isinstance(obs_space, spaces.Tuple):
        parts = dict(enumerate(obs_space.spaces))
    shapes = {key: part.shape for key, part in parts.items()}
    return list(parts), shapes, {key: part.dtype for key, part in parts.items()}


def dict_to_obs(obs_space: Space, obs_dict: dict[Any, Array]) -> Observation | tuple[Array, ...]:
    """The observation of a space from its parts under the keys of :func:`obs_space_info`."""
    expected = obs_space_info(obs_space)[0]
    if obs_dict.keys() != set(expected):
        raise ValueError(f"got parts {list(obs_dict)} for {obs_space}, expected {expected}")
    match obs_space:
        case spaces.Dict():
            return obs_dict
        case spaces.Tuple():
            return tuple(obs_dict[index] for index in expected)
    return obs_dict[None]


def maybe_make_env(env: gym.Env[Any, Any] | str, verbose: int = 0) -> Any:
    """The environment of an id; what is an environment already comes back unchanged."""
    if not isinstance(env, str):
        return env
    if verbose >= 1:
        print(f"Creating environment from the given name '{env}'")  # noqa: T201
    return make_env(env)


def get_system_info(print_info: bool = True) -> tuple[dict[str, str], str]:
    """Versions that a report of a fault should name, as a dictionary and as text."""
    info = {
        "OS": f"{platform.platform()} {platform.version()}",
        "Python": platform.python_version(),
        "Proximo": __version__,
        "PyTorch": torch.__version__,
        "GPU Enabled": str(torch.cuda.is_available()),
        "Numpy": np.__version__,
        "Gymnasium": gym.__version__,
    }
    text = "".join(f"- {name}: {value}\n" for name, value in info.items())
    if print_info:
        print(text)  # noqa: T201
    return info, text
