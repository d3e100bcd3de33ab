"""Observations of any space as one tensor, which the networks of intrinsic rewards read."""

from __future__ import annotations

from typing import NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor

from proximo.data import TensorObservation
from proximo.functional.spaces import (
    Space,
    get_flattened_obs_dim,
    get_obs_shape,
    is_image_space,
    preprocess_obs,
)


class Part(NamedTuple):
    """A stretch of a flat observation: an image [channels, height, width], or numbers without a form."""

    width: int
    image: tuple[int, ...] | None


class ObservationReader:
    """One Box is read as it is; anything else becomes one flat row: images divided by 255, discrete parts one-hot.

    >>> reader = ObservationReader(spaces.Dict(position=spaces.Box(-1.0, 1.0, (2,)), room=spaces.Discrete(3)))
    >>> reader.shape
    (5,)
    >>> observation = {"position": torch.zeros(1, 1, 2), "room": torch.ones(1, 1, 1)}
    >>> reader.read("observations", observation, (1, 1), torch.device("cpu")).tolist()
    [[[0.0, 0.0, 0.0, 1.0, 0.0]]]
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._stored_shape = get_obs_shape(space)  # raises for a space that networks cannot read
        self._flat = not isinstance(space, spaces.Box) or not space.shape
        self.gives_bytes = not self._flat and is_image_space(space)
        self.parts: tuple[Part, ...] = tuple(map(_part, space.values())) if isinstance(space, spaces.Dict) else ()
        self.shape: tuple[int, ...] = (get_flattened_obs_dim(space),) if self._flat else tuple(space.shape or ())

    def read(self, name: str, observations: TensorObservation, lead: tuple[int, int], device: torch.device) -> Tensor:
        """[time, env, …] observations, checked, as [time, env, *shape] on the device."""
        if not self._flat:
            return self._checked(name, observations, (*lead, *self.shape), device)
        if not isinstance(self._stored_shape, dict):
            flat = self._checked(name, observations, (*lead, *self._stored_shape), device).flatten(0, 1)
            return preprocess_obs(flat, self.space).unflatten(0, lead).float()  # type: ignore[union-attr]
        if not isinstance(observations, dict) or self._stored_shape.keys() - observations.keys():
            raise ValueError(f"{name} must be a dictionary with the keys {sorted(self._stored_shape)} of {self.space}")
        parts = {
            key: self._checked(f"{name}[{key!r}]", observations[key], (*lead, *shape), device).flatten(0, 1)
            for key, shape in self._stored_shape.items()
        }
        rows = preprocess_obs(parts, self.space)
        return torch.cat([rows[key].flatten(1) for key in parts], dim=1).unflatten(0, lead)  # type: ignore[index]

    def _checked(
        self, name: str, observations: TensorObservation, expected: tuple[int, ...], device: torch.device
    ) -> Tensor:
        if isinstance(observations, dict):
            raise ValueError(f"{name} is a dictionary, but the space is {self.space}")
        tensor = torch.as_tensor(observations, device=device)
        check_shape(name, tensor, expected)
        return tensor


def check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        raise ValueError(f"{name} must have shape {expected} (time, env, …), got {tuple(tensor.shape)}")


def _part(space: Space) -> Part:
    width = get_flattened_obs_dim(space)
    return Part(width, tuple(space.shape or ()) if is_image_space(space) else None)
