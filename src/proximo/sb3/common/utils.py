"""Helpers."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from proximo.agents.on_policy import set_random_seed as set_random_seed
from proximo.data import Array
from proximo.functional.schedules import ConstantSchedule as ConstantSchedule
from proximo.functional.schedules import FloatSchedule as FloatSchedule
from proximo.functional.schedules import LinearSchedule as LinearSchedule
from proximo.functional.spaces import Space
from proximo.functional.spaces import check_for_correct_spaces as check_for_correct_spaces
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_observation
from proximo.functional.spaces import obs_as_tensor as obs_as_tensor
from proximo.functional.statistics import explained_variance as explained_variance
from proximo.networks.actor_critic import get_device as get_device
from proximo.sb3.common.type_aliases import GymEnv as GymEnv
from proximo.sb3.common.type_aliases import Schedule as Schedule
from proximo.sb3.common.type_aliases import TensorDict as TensorDict
from proximo.training.loggers import configure_logger as configure_logger
from proximo.training.loggers import get_latest_run_id as get_latest_run_id
from proximo.version import __version__

constant_fn = ConstantSchedule
get_schedule_fn = FloatSchedule
get_linear_fn = LinearSchedule
is_vectorized_box_observation = is_vectorized_observation
is_vectorized_dict_observation = is_vectorized_observation
is_vectorized_discrete_observation = is_vectorized_observation
is_vectorized_multibinary_observation = is_vectorized_observation
is_vectorized_multidiscrete_observation = is_vectorized_observation


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
