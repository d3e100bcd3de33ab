"""Helpers."""

from __future__ import annotations

from proximo.agents.on_policy import set_random_seed
from proximo.functional.schedules import (
    ConstantSchedule,
    FloatSchedule,
    LinearSchedule,
    constant_fn,
    get_linear_fn,
    get_schedule_fn,
)
from proximo.functional.spaces import check_for_correct_spaces, is_vectorized_observation, obs_as_tensor
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_box_observation
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_dict_observation
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_discrete_observation
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_multibinary_observation
from proximo.functional.spaces import is_vectorized_observation as is_vectorized_multidiscrete_observation
from proximo.functional.statistics import explained_variance
from proximo.networks.actor_critic import get_device
from proximo.sb3.common.type_aliases import GymEnv, Schedule, TensorDict
from proximo.training.loggers import configure_logger, get_latest_run_id
from proximo.training.utilities import (
    check_shape_equal,
    get_parameters_by_name,
    get_system_info,
    polyak_update,
    safe_mean,
    update_learning_rate,
    zip_strict,
)

__all__ = [
    "ConstantSchedule",
    "FloatSchedule",
    "GymEnv",
    "LinearSchedule",
    "Schedule",
    "TensorDict",
    "check_for_correct_spaces",
    "check_shape_equal",
    "configure_logger",
    "constant_fn",
    "explained_variance",
    "get_device",
    "get_latest_run_id",
    "get_linear_fn",
    "get_parameters_by_name",
    "get_schedule_fn",
    "get_system_info",
    "is_vectorized_box_observation",
    "is_vectorized_dict_observation",
    "is_vectorized_discrete_observation",
    "is_vectorized_multibinary_observation",
    "is_vectorized_multidiscrete_observation",
    "is_vectorized_observation",
    "obs_as_tensor",
    "polyak_update",
    "safe_mean",
    "set_random_seed",
    "update_learning_rate",
    "zip_strict",
]
