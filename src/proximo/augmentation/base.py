"""What augmentations share."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal

from torch import Tensor, nn


class BaseAugmentation(nn.Module):
    """Base of augmentations: ``forward`` maps a batch to a batch, with torch's global generator.

    One of your own keeps the arguments of its constructor as attributes of the same names.
    """

    changes: ClassVar[Literal["images", "states", "anything"]] = "anything"

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of one observation, after the change."""
        return shape

    def arguments(self) -> dict[str, Any]:
        """What it was made with, by name."""
        named = inspect.signature(type(self)).parameters.values()
        return {item.name: getattr(self, item.name) for item in named if item.kind is item.POSITIONAL_OR_KEYWORD}


class ImageAugmentation(BaseAugmentation):
    """Base of those that change images [batch, channel, height, width], of bytes or floats."""

    changes = "images"


class StateAugmentation(BaseAugmentation):
    """Base of those that change state vectors [batch, feature]."""

    changes = "states"


class Identity(BaseAugmentation):
    """The batch as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def check_states(x: Tensor) -> None:
    """Raise unless it is a batch of state vectors."""
    if x.dim() != 2:
        raise ValueError(f"this augmentation changes state vectors [batch, feature], got shape {tuple(x.shape)}")


def check_images(x: Tensor, colors: bool = False) -> None:
    """Raise unless it is a batch of images, and of colour images where that is asked for."""
    if x.dim() != 4:
        raise ValueError(f"this augmentation changes images [batch, channel, height, width], got {tuple(x.shape)}")
    if colors and x.shape[1] % 3:
        raise ValueError(f"this augmentation changes colours: channels must be a multiple of 3, got {x.shape[1]}")


def check_probability(p: float) -> None:
    """Raise unless it is a number from 0 to 1."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability, 0 <= p <= 1; got {p}")


def white(x: Tensor) -> float:
    """The brightest value of images: 255 for bytes and for floats beyond 1, else 1."""
    return 255.0 if not x.is_floating_point() or bool((x > 1.0).any()) else 1.0


def as_dtype(x: Tensor, like: Tensor) -> Tensor:
    """Floats in the dtype of ``like``; bytes are rounded, not cut."""
    return x.to(like.dtype) if like.is_floating_point() else x.round().clamp(0.0, 255.0).to(like.dtype)
