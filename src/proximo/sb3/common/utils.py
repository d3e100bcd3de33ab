"""Helpers."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from proximo import sb3
from proximo.agents.on_policy import set_random_seed as set_random_seed
from proximo.data import Array
from proximo.errors import ArgumentValueError
from proximo.functional.schedules import ConstantSchedule as ConstantSchedule
from proximo.functional.schedules import FloatSchedule as FloatSchedule
from proximo.functional.schedules import LinearSchedule as LinearSchedule
from proximo.functional.spaces import Space
from proximo.functional.spaces import check_for_correct_spaces as check_for_correct_spaces
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_observation
from proximo.functional.spaces import obs_as_tensor as obs_as_tensor
from proximo.functional.statistics import explained_variance as explained_variance
from proximo.networks.actor_critic import get_device as get_device
from proximo.networks.optimizers import update_learning_rate as update_learning_rate
from proximo.other_libraries import names_from
from proximo.sb3.common.type_aliases import GymEnv as GymEnv
from proximo.sb3.common.type_aliases import Schedule as Schedule
from proximo.sb3.common.type_aliases import TensorDict as TensorDict
from proximo.training.loggers import configure_logger as configure_logger
from proximo.training.loggers import get_latest_run_id as get_latest_run_id
from proximo.version import __version__

is_vectorized_box_observation = is_vectorized_observation
is_vectorized_dict_observation = is_vectorized_observation
is_vectorized_discrete_observation = is_vectorized_observation
is_vectorized_multibinary_observation = is_vectorized_observation
is_vectorized_multidiscrete_observation = is_vectorized_observation


def constant_fn(val: float) -> Schedule:
    """Deprecated: a :class:`ConstantSchedule`."""
    warnings.warn("constant_fn() is deprecated, make a ConstantSchedule()", stacklevel=2)
    return ConstantSchedule(val)


def get_linear_fn(start: float, end: float, end_fraction: float) -> Schedule:
    """Deprecated: a :class:`LinearSchedule`."""
    warnings.warn("get_linear_fn() is deprecated, make a LinearSchedule()", stacklevel=2)
    return LinearSchedule(start, end, end_fraction)


def get_schedule_fn(value_schedule: Schedule | float) -> Schedule:
    """Deprecated: a :class:`FloatSchedule`."""
    warnings.warn("get_schedule_fn() is deprecated, make a FloatSchedule()", stacklevel=2)
    return FloatSchedule(value_schedule)


def safe_mean(arr: Sequence[float] | Array) -> float:
    """The mean, or NaN of nothing.

    >>> safe_mean([]), safe_mean([1.0, 2.0])
    (nan, 1.5)
    """
    return float(np.mean(arr)) if len(arr) else float("nan")


def zip_strict(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """``zip`` that refuses iterables of different lengths."""
    return zip(*iterables, strict=True)


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
            raise ArgumentValueError(f"expected a Dict space with the keys {sorted(space1.spaces)}, got {space2}")
        for key, part in space1.spaces.items():
            check_shape_equal(part, space2[key])
    elif isinstance(space1, spaces.Box) and space1.shape != space2.shape:
        raise ArgumentValueError(f"the spaces have different shapes: {space1.shape} and {space2.shape}")


def get_system_info(print_info: bool = True) -> tuple[dict[str, str], str]:
    """Versions that a report of a fault should name, as a dictionary and as text.

    Under "Stable-Baselines3" stands the version whose names are mirrored, which scripts compare.
    """
    info = {
        "OS": f"{platform.platform()} {platform.version()}".replace("#", "# "),  # no link to an issue number
        "Python": platform.python_version(),
        "Stable-Baselines3": sb3.__version__,
        "Proximo": __version__,
        "PyTorch": torch.__version__,
        "GPU Enabled": str(torch.cuda.is_available()),
        "Numpy": np.__version__,
        "Cloudpickle": cloudpickle.__version__,
        "Gymnasium": gym.__version__,
    }
    text = "".join(f"- {name}: {value}\n" for name, value in info.items())
    if print_info:
        print(text)  # noqa: T201
    return info, text


__getattr__ = names_from(__name__, {"should_collect_more_steps": "stable_baselines3.common.utils"})
