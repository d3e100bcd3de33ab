"""What an algorithm refuses before it does any work: spaces and policies that do not go together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import nn

from proximo.augmentation import Mirror
from proximo.config import A2CConfig, ActorCriticConfig, PPOConfig
from proximo.errors import ArgumentTypeError, ArgumentValueError
from proximo.exploration import IntrinsicReward
from proximo.functional.actions import leaves
from proximo.functional.spaces import Space, check_for_nested_spaces, get_action_dim, get_obs_shape, is_image_space
from proximo.networks.actor_critic import ActorCriticPolicy
from proximo.other_libraries import real_class
from proximo.rollout.storage import RolloutBuffer, is_stock


def checked_buffer_class(buffer_class: type[Any] | None) -> type[Any]:
    """The class of the rollout buffer; a user's own must work through what the learners call."""
    if buffer_class is None:
        return RolloutBuffer
    real = real_class("stable_baselines3.common.buffers", "RolloutBuffer")
    if isinstance(buffer_class, type) and real is not None and real in buffer_class.__mro__:
        return buffer_class
    if not (isinstance(buffer_class, type) and issubclass(buffer_class, RolloutBuffer)):
        raise TypeError(f"rollout_buffer_class is {buffer_class!r}; expected a subclass of RolloutBuffer")
    if hasattr(buffer_class, "_get_samples"):
        raise TypeError(
            f"{buffer_class.__name__} overrides _get_samples, which nothing calls here; override get(batch_size), "
            "which yields minibatches"
        )
    return buffer_class


def checked_learner_class(given: type[Any] | None, stock: type[Any]) -> type[Any]:
    """The class of the learner; a user's own must be one of the algorithm's."""
    if given is None:
        return stock
    if not (isinstance(given, type) and issubclass(given, stock)):
        raise TypeError(f"learner_class is {given!r}; expected a subclass of {stock.__module__}.{stock.__name__}")
    return given


def checked_intrinsic_reward(given: Any) -> IntrinsicReward | None:
    if given is None or isinstance(given, IntrinsicReward):
        return given
    raise TypeError(
        f"intrinsic_reward is {given!r}; expected an object such as proximo.exploration.RND(), or one of a subclass of "
        "proximo.exploration.IntrinsicReward"
    )


def checked_twin(
    algorithm: str,
    given: str | type[ActorCriticPolicy],
    resolved: type[ActorCriticPolicy],
    twins: Mapping[type[ActorCriticPolicy], type[ActorCriticPolicy]],
    base: type[ActorCriticPolicy],
    need: str,
) -> type[ActorCriticPolicy]:
    """The policy class in the form that an algorithm trains, derived from ``base``: a stock policy's twin."""
    name = given if isinstance(given, str) else given.__name__
    if resolved.recurrent:
        raise ValueError(f"{algorithm} cannot train {name}, a policy with memory; use RecurrentPPO for it")
    resolved = twins.get(resolved, resolved)
    if not issubclass(resolved, base):
        raise TypeError(
            f"{algorithm} cannot train {name}: {need}; derive it from {base.__module__}.{base.__name__} instead of "
            "ActorCriticPolicy"
        )
    return resolved


def check_second_value(policy: ActorCriticPolicy, buffer: RolloutBuffer, reward: str) -> None:
    """Raise where an intrinsic reward with a value of its own finds no place for it."""
    if getattr(policy.value_net, "out_features", 1) != 2:
        raise ValueError(
            f"{reward}(own_value=True) needs a second value, and value_net of {type(policy).__name__} gives one: let "
            "it have two outputs, or leave own_value out"
        )
    if not is_stock(buffer):
        raise ValueError(
            f"{reward}(own_value=True) keeps its values in the library's own rollout buffer, not in a "
            f"{type(buffer).__name__}; leave rollout_buffer_class or own_value out"
        )


def check_normalized_returns(policy: ActorCriticPolicy, buffer: RolloutBuffer, reward: IntrinsicReward | None) -> None:
    """Raise where values cannot be told in units of the returns."""
    if reward is not None and reward.own_value:
        raise ValueError(
            f"normalize_returns=True keeps the moments of one stream of returns, and {type(reward).__name__}"
            "(own_value=True) has a second one: leave one of the two out"
        )
    if type(policy.value_net) is not nn.Linear or policy.value_net.bias is None:
        raise ValueError(
            f"normalize_returns=True rescales the value's last layer, and value_net of {type(policy).__name__} is a "
            f"{type(policy.value_net).__name__}: let it be a torch.nn.Linear with a bias"
        )
    if not is_stock(buffer):
        raise ValueError(
            f"normalize_returns=True changes the units of the library's own rollout buffer, not of a "
            f"{type(buffer).__name__}; leave rollout_buffer_class or normalize_returns out"
        )


def check_mirror(model: Any, mirror: Mirror) -> None:
    """Raise where mirrored samples cannot train; ``model`` has its spaces, its policy and its buffer."""
    if model.config_class not in (PPOConfig, A2CConfig):
        raise ValueError(
            f"{model.run_name} does not train on mirrored samples; use PPO, MaskablePPO or A2C with a Mirror"
        )
    if model.policy_class.recurrent:
        raise ValueError(
            "a Mirror doubles single steps, and a policy with memory trains on sequences, whose mirrored memory nobody "
            "knows; use a policy without memory, or leave the Mirror out"
        )
    if model.aug_coef != ActorCriticConfig.aug_coef:
        raise ValueError(f"aug_coef is {model.aug_coef}, but a Mirror adds no term that it could weigh; leave it out")
    if not is_stock(model.rollout_buffer):
        raise ValueError(
            f"a Mirror doubles the library's own rollout buffer, not a {type(model.rollout_buffer).__name__}"
        )
    if model.intrinsic_reward is not None and model.intrinsic_reward.own_value:
        raise ValueError("a Mirror knows nothing of the values of an intrinsic reward; leave own_value out")
    mirror.check(model.observation_space, model.action_space)
    normalizer = None if model.env is None else model.get_vec_normalize_env()
    if normalizer is not None and normalizer.norm_obs:
        warnings.warn(
            "VecNormalize subtracts a running mean from observations, which a mirror of signs would have to change "
            "too; normalise within the environment, or with norm_obs=False",
            stacklevel=6,
        )


def checked_distributed(distributed: Any) -> Any:
    if distributed not in (True, False, "gathered", "sharded"):
        raise ValueError(f"distributed is {distributed!r}; expected True, False, 'gathered' or 'sharded'")
    return distributed


def check_spaces(observation_space: Space, action_space: Space, use_sde: bool) -> None:
    """Raise for spaces that no policy of the library can read or act in."""
    check_for_nested_spaces(observation_space)
    get_obs_shape(observation_space)  # raises for an unsupported space
    get_action_dim(action_space)
    for space in leaves(action_space):
        if isinstance(space, spaces.Box) and not np.isfinite(np.stack([space.low, space.high])).all():
            raise ArgumentValueError(
                f"action space {space} has an infinite bound; a continuous action needs finite low and high. Give the "
                "environment a space with bounds: gymnasium.wrappers.TransformAction(env, lambda action: action, space)"
            )
    if use_sde and not isinstance(action_space, spaces.Box):
        raise ValueError(f"use_sde=True needs continuous (Box) actions, this environment takes {action_space}")


def check_policy_reads_observations(
    policy_class: type[ActorCriticPolicy],
    known: Mapping[str, type[ActorCriticPolicy]],
    observation_space: Space,
    policy_kwargs: Mapping[str, Any],
) -> None:
    """Raise for one of the ``known`` policies, by name, that is made for other observations."""
    name = next((name for name, policy in known.items() if policy is policy_class), "")
    kind = "Mlp" if name.startswith("Mlp") else "Cnn" if name.startswith("Cnn") else ""
    if kind and isinstance(observation_space, spaces.Dict):
        fitting = name.replace(kind, "MultiInput")
        raise ValueError(f"observations are {observation_space}: use {fitting!r} for Dict observations")
    normalized = not policy_kwargs.get("normalize_images", True)
    reads_images = kind == "Cnn" and "features_extractor_class" not in policy_kwargs
    if reads_images and not is_image_space(observation_space, normalized_image=normalized):
        raise ArgumentValueError(
            f"{name} reads images (Box of three dimensions, uint8, 0 to 255), got {observation_space}; use "
            f"{name.replace(kind, 'Mlp')!r} for vectors, or policy_kwargs={{'normalize_images': False}} for float "
            "images"
        )


def check_needs_no_env(is_set_up: bool) -> None:
    """A model without an environment can only be made for a file that is read into it."""
    if is_set_up:
        raise ArgumentValueError(
            "env is None; give an id such as CartPole-v1, or an environment: networks are made for its spaces"
        )


def check_timesteps(total_timesteps: Any) -> None:
    if isinstance(total_timesteps, bool) or not isinstance(total_timesteps, int | float | np.number):
        raise ArgumentTypeError(f"total_timesteps is {total_timesteps!r}; expected a number of steps, such as 100_000")
