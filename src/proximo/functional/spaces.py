"""What a gymnasium space means for a network: shapes, sizes, images, and the tensor a network reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial, reduce
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch.nn import functional

from proximo.data import Array, Observation, TensorObservation, map_observation
from proximo.errors import ArgumentTypeError, ArgumentValueError, MissingKeyError, UnsupportedSpaceError

Space: TypeAlias = spaces.Space[Any]


def is_image_space_channels_first(observation_space: spaces.Box) -> bool:
    """Whether the smallest of the three dimensions, taken to be the channels, is the first."""
    smallest = int(np.argmin(observation_space.shape))
    if smallest == 1:
        warnings.warn(
            f"image space of shape {observation_space.shape}: the second dimension is the smallest; "
            "taking the image as channels-last",
            stacklevel=2,
        )
    return smallest == 0


def is_image_space(observation_space: Space, check_channels: bool = False, normalized_image: bool = False) -> bool:
    """Whether a space surely holds images: three dimensions, uint8 and bounds 0 to 255 (unless normalised already).

    >>> is_image_space(spaces.Box(0, 255, (84, 84, 1), np.uint8)), is_image_space(spaces.Box(-1.0, 1.0, (84, 84, 1)))
    (True, False)
    """
    if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 3:
        return False
    low, high, dtype = observation_space.low, observation_space.high, observation_space.dtype
    if not normalized_image and (dtype != np.uint8 or np.any(low != 0) or np.any(high != 255)):
        return False
    if not check_channels:
        return True
    channels = observation_space.shape[0 if is_image_space_channels_first(observation_space) else -1]
    return channels in (1, 3, 4)


def transpose_image_space(space: spaces.Box) -> spaces.Box:
    """The channels-first space of a channels-last image space (H, W, C) → (C, H, W)."""
    height, width, channels = space.shape
    return spaces.Box(0, 255, (channels, height, width), dtype=space.dtype.type)


def transpose_image(image: Array) -> Array:
    """(…, H, W, C) → (…, C, H, W)."""
    return np.moveaxis(image, -1, -3)


def maybe_transpose(observation: Array, observation_space: Space) -> Array:
    """Bring a channels-last image to a channels-first space; anything else passes unchanged."""
    if not is_image_space(observation_space):
        return observation
    shape = observation_space.shape
    if observation.shape == shape or observation.shape[1:] == shape:
        return observation
    transposed = transpose_image(observation)
    return transposed if transposed.shape == shape or transposed.shape[1:] == shape else observation


def is_nested(space: Space) -> bool:
    """Whether observations of this space are more than an array or a dictionary of arrays."""
    if isinstance(space, spaces.Dict):
        return any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space.spaces.values())
    return isinstance(space, spaces.Tuple)


def is_flat_tuple(space: Space) -> bool:
    """Whether observations are tuples of arrays.

    >>> is_flat_tuple(spaces.Tuple([spaces.Discrete(2)])), is_flat_tuple(spaces.Tuple([spaces.Tuple([])]))
    (True, False)
    """
    return isinstance(space, spaces.Tuple) and not any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space)


def check_for_nested_spaces(obs_space: Space) -> None:
    """Raise for a Dict or Tuple within a Dict or Tuple: inside the library, all of them are flat."""
    if is_nested(obs_space) and not is_flat_tuple(obs_space):
        raise NotImplementedError(
            f"this vector environment shows nested observations, {obs_space}; flatten them with "
            "proximo.functional.spaces.NestedObservation, as DummyVecEnv and SubprocVecEnv do"
        )


class NestedObservation:
    """Observations of Dict and Tuple spaces, nested in any way, as one dictionary: names are joined by ``/``.

    >>> flat = NestedObservation(spaces.Dict(arm=spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (3,))])))
    >>> flat.space
    Dict('arm/0': Discrete(2), 'arm/1': Box(0.0, 1.0, (3,), float32))
    >>> flat.flatten({"arm": (1, [0.0, 0.0, 0.0])})
    {'arm/0': 1, 'arm/1': [0.0, 0.0, 0.0]}
    """

    def __init__(self, space: Space) -> None:
        """Arguments:
        space: A Dict or Tuple space, nested in any way.
        """
        parts = list(_leaves_by_path(space, ()))
        self.paths = {"/".join(map(str, path)): path for path, _ in parts}
        if len(self.paths) < len(parts):
            raise ValueError(f"two parts of {space} get the same name when joined by '/'; rename the keys with a '/'")
        self.space = spaces.Dict({name: part for name, (_, part) in zip(self.paths, parts, strict=True)})

    def flatten(self, observation: Any) -> dict[str, Any]:
        """One observation, or a batch whose arrays are batches."""
        return {name: reduce(getitem, path, observation) for name, path in self.paths.items()}


def _leaves_by_path(space: Space, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Space]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from _leaves_by_path(part, (*path, key))
    else:
        yield path, space


def flatten_given(observation: Any, space: spaces.Dict, prefix: str = "") -> dict[str, Any]:
    """A nested observation as its flattened space names the parts; what is flat already stays as it is.

    >>> flatten_given({"arm": (1, 2)}, spaces.Dict({"arm/0": spaces.Discrete(2), "arm/1": spaces.Discrete(3)}))
    {'arm/0': 1, 'arm/1': 2}
    """
    flat: dict[str, Any] = {}
    parts = observation.items() if isinstance(observation, dict) else enumerate(observation)
    for key, part in parts:
        name = f"{prefix}{key}"
        if name not in space.spaces and isinstance(part, dict | tuple):
            flat |= flatten_given(part, space, f"{name}/")
        else:
            flat[name] = part
    return flat


def get_obs_shape(observation_space: Space) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
    """Shape of one stored observation; an error for a space that networks cannot read."""
    match observation_space:
        case spaces.Box():
            return observation_space.shape
        case spaces.Discrete():
            return (1,)
        case spaces.MultiDiscrete():
            _require_one_dimension(observation_space, "observations")
            return (len(observation_space.nvec),)
        case spaces.MultiBinary():
            return observation_space.shape
        case spaces.Dict():
            if not observation_space.spaces:
                raise ValueError(f"the observation space {observation_space} is empty; give it at least one part")
            return {key: get_obs_shape(part) for key, part in observation_space.spaces.items()}  # type: ignore[misc]
    raise NotImplementedError(
        f"observation space {observation_space} is not supported; use Box, Discrete, MultiDiscrete, MultiBinary or a "
        "Dict of these"
    )


def _require_one_dimension(space: spaces.MultiDiscrete, what: str) -> None:
    if space.nvec.ndim > 1:
        raise NotImplementedError(
            f"multi-dimensional MultiDiscrete({space.nvec.tolist()}) {what} are not supported; flatten them to one "
            f"dimension, MultiDiscrete({space.nvec.reshape(-1).tolist()})"
        )


def get_flattened_obs_dim(observation_space: Space) -> int:
    """Width of the flat vector a network reads: one-hot for discrete spaces.

    >>> get_flattened_obs_dim(spaces.MultiDiscrete([3, 4]))
    7
    """
    if isinstance(observation_space, spaces.MultiDiscrete):
        return int(np.sum(observation_space.nvec))
    return int(spaces.utils.flatdim(observation_space))


def get_action_dim(action_space: Space) -> int:
    """Width of one stored action; an error for a space that no policy acts in."""
    match action_space:
        case spaces.Box():
            return int(np.prod(action_space.shape))
        case spaces.Discrete():
            return 1
        case spaces.MultiDiscrete():
            _require_one_dimension(action_space, "actions")
            return len(action_space.nvec)
        case spaces.MultiBinary():
            if not isinstance(action_space.n, int | np.integer):
                raise UnsupportedSpaceError(
                    f"multi-dimensional MultiBinary({action_space.n}) actions are not supported; flatten them to one "
                    "dimension"
                )
            return int(action_space.n)
        case spaces.Dict() | spaces.Tuple():
            parts = action_space.values() if isinstance(action_space, spaces.Dict) else action_space.spaces
            if not parts:
                raise ValueError(
                    f"the action space {action_space} is empty: there is nothing to choose; give it at least one part, "
                    "or leave it out of the space around it"
                )
            return sum(get_action_dim(part) for part in parts)
    raise UnsupportedSpaceError(
        f"action space {action_space} is not supported; use Box, Discrete, MultiDiscrete, MultiBinary, "
        "or a Dict or Tuple of these"
    )


def describe_action_space(action_space: Space) -> tuple[tuple[int, ...], int, int, str]:
    """Shape and width of one action, numbers that a policy gives for it, and the kind of space.

    >>> describe_action_space(spaces.Discrete(3))
    ((), 1, 3, 'Discrete')
    >>> describe_action_space(spaces.MultiDiscrete([2, 3]))
    ((2,), 2, 5, 'MultiDiscrete')
    """
    if not isinstance(action_space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        raise NotImplementedError(
            f"a tensor of actions holds Discrete, Box, MultiDiscrete and MultiBinary actions, got {action_space}; "
            "proximo.PPO takes Dict and Tuple actions too"
        )
    width = get_flattened_obs_dim(counted_from_zero(action_space))
    return action_space.shape or (), get_action_dim(action_space), width, type(action_space).__name__


def counted_from_zero(space: Space) -> Space:
    """The space that stored actions lie in: discrete ones count from 0, wherever those of the environment start.

    >>> counted_from_zero(spaces.Discrete(3, start=5))
    Discrete(3)
    """
    match space:
        case spaces.Discrete():
            return spaces.Discrete(int(space.n))
        case spaces.MultiDiscrete():
            return spaces.MultiDiscrete(space.nvec)
    return space


def preprocess_obs(
    obs: TensorObservation, observation_space: Space, normalize_images: bool = True
) -> TensorObservation:
    """The float tensor a network reads: images divided by 255, discrete values one-hot, counted from their ``start``.

    >>> preprocess_obs(torch.tensor([2]), spaces.Discrete(3))
    tensor([[0., 0., 1.]])
    """
    if isinstance(observation_space, spaces.Dict):
        if not isinstance(obs, dict):
            raise ArgumentTypeError(
                f"expected a dictionary of observations for {observation_space}, got {type(obs).__name__}"
            )
        return {
            key: preprocess_obs(value, observation_space[key], normalize_images)  # type: ignore[misc]
            for key, value in obs.items()
        }
    if isinstance(obs, dict):
        raise ArgumentTypeError(f"expected a tensor for {observation_space}, got a dictionary with keys {sorted(obs)}")
    match observation_space:
        case spaces.Box():
            if normalize_images and is_image_space(observation_space):
                pixels = obs.float()  # if it is a copy, it is divided in place: another would cost more than dividing
                return pixels / 255.0 if pixels is obs else pixels.div_(255.0)
            return obs.float() if observation_space.shape else obs.float().reshape(-1, 1)
        case spaces.Discrete():
            values = obs.long().reshape(-1) - int(observation_space.start)
            return functional.one_hot(values, num_classes=int(observation_space.n)).float()
        case spaces.MultiDiscrete():
            sizes, starts = observation_space.nvec.tolist(), observation_space.start.tolist()
            columns = obs.long().reshape(obs.shape[0], -1).split(1, dim=1)
            return torch.cat(
                [
                    functional.one_hot(column[:, 0] - start, num_classes=size).float()
                    for column, size, start in zip(columns, sizes, starts, strict=True)
                ],
                dim=-1,
            )
        case spaces.MultiBinary():
            return obs.float()
    raise NotImplementedError(f"observation space {observation_space} is not supported")


def obs_as_tensor(obs: Observation, device: torch.device | str) -> TensorObservation:
    """An observation array, or a dictionary of them, as tensors on a device."""
    if isinstance(obs, list | tuple):
        raise TypeError(f"expected an array of observations or a dictionary of them, got a {type(obs).__name__}")
    return map_observation(partial(torch.as_tensor, device=device), obs)


def batch_observation(observation: Observation, space: Space, name: str = "observation") -> tuple[Observation, bool]:
    """An observation with a leading batch axis, and whether it already had one.

    Channels-last images are turned when the space is channels-first; nested observations are flattened.

    >>> batch_observation(np.zeros(4), spaces.Box(-1.0, 1.0, (4,)))[1]
    False
    """
    if isinstance(space, spaces.Dict):
        return _batch_dict_observation(observation, space)
    if isinstance(observation, dict):
        raise ArgumentValueError(f"{name} is a dictionary with keys {sorted(observation)}, but the space is {space}")
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
        raise ValueError(
            "observation is a tuple (observation, info): gymnasium's reset() returns both, so write "
            "`obs, info = env.reset()`; a vector env's reset() returns the observation alone"
        )
    array = maybe_transpose(np.asarray(observation), space)
    shape = space.shape or ()
    if array.shape == shape:
        return array[None], False
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array, True
    raise ValueError(
        f"{name} has shape {array.shape}, but {space} expects {shape} for one observation "
        f"or (n, {', '.join(map(str, shape))}) for a batch of n".replace(", )", ")")
    )


def _batch_dict_observation(observation: Observation, space: spaces.Dict) -> tuple[Observation, bool]:
    if isinstance(observation, tuple) and not any(name.split("/")[0] == "0" for name in space.spaces):
        raise ValueError(
            f"observation is a tuple, but the space is {space}: pass a dictionary (gymnasium's reset() returns "
            "(observation, info), so write `obs, info = env.reset()`)"
        )
    if not isinstance(observation, dict | tuple):
        raise ValueError(f"observation is a {type(observation).__name__}, but the space is {space}: pass a dictionary")
    if isinstance(observation, tuple) or not space.spaces.keys() <= observation.keys():
        observation = flatten_given(observation, space)
    if missing := space.spaces.keys() - observation.keys():
        raise MissingKeyError(f"observation lacks the keys {sorted(missing)} of {space}")
    batched = {key: batch_observation(observation[key], part, f"observation[{key!r}]") for key, part in space.items()}
    if len({vectorized for _, vectorized in batched.values()}) > 1:
        raise ValueError(f"some keys of the observation are batched and some are not: {sorted(observation)}")
    return {key: array for key, (array, _) in batched.items()}, any(vector for _, vector in batched.values())  # type: ignore[misc]


def is_vectorized_observation(observation: Observation, observation_space: Space) -> bool:
    """Whether an observation has a leading batch axis; an error when it fits the space neither way."""
    return batch_observation(observation, observation_space)[1]


class ObservationFlattener:
    """Shows nested observations as one dictionary, and others as they are."""

    def __init__(self, space: Space) -> None:
        """Arguments:
        space: Any space.
        """
        self.nesting = NestedObservation(space) if is_nested(space) else None
        self.space = space if self.nesting is None else self.nesting.space

    def __call__(self, observation: Any) -> Observation:
        return observation if self.nesting is None else self.nesting.flatten(observation)


def check_for_correct_spaces(env: Any, observation_space: Space, action_space: Space) -> None:
    """Raise when an environment's spaces are not the model's."""
    for name, wanted, given in (
        ("observation", observation_space, env.observation_space),
        ("action", action_space, env.action_space),
    ):
        if wanted != given:
            raise ValueError(
                f"{name} spaces do not match: the model was made for {wanted}, the environment has {given}"
            )
