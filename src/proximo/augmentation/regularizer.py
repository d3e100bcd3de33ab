"""What an agent does with an augmentation: DrAC's terms (Raileanu et al. 2020, arXiv 2006.12862)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from gymnasium import spaces
from torch import Tensor, nn

from proximo.augmentation.base import BaseAugmentation
from proximo.augmentation.geometry import RandomCrop
from proximo.augmentation.states import GaussianNoise
from proximo.data import TensorObservation
from proximo.functional.spaces import Space
from proximo.networks.distributions import Distribution
from proximo.networks.distributions.divergence import kl_from_rows

# a module from a batch of observations to a batch; for Dict observations one for each key that is to change
Augmentation: TypeAlias = nn.Module | Mapping[str, nn.Module]


class AugmentationTerms(NamedTuple):
    """How far policy and value of augmented observations are from those of the plain ones: means over a minibatch."""

    policy: Tensor  # KL(π(·|s) ‖ π(·|f(s)))
    value: Tensor  # (V(s) − V(f(s)))²


def augmentation_terms(
    plain_rows: Tensor, plain_values: Tensor, distribution: Distribution, values: Tensor, valid: Tensor | None = None
) -> AugmentationTerms:
    """DrAC's terms, whose gradients go through the augmented side only: the plain one is what it is pulled to.

    ``plain_rows`` are :func:`parameter_rows` of the policy on plain observations, ``distribution`` is the policy on the
    augmented ones; values are [row] (or [row, 2]) of the rows that ``valid`` [batch] chooses.
    """
    divergence = kl_from_rows(plain_rows.detach(), distribution)
    squares = (plain_values.detach() - values).square().reshape(len(values), -1).sum(dim=1)
    return AugmentationTerms((divergence if valid is None else divergence[valid]).mean(), squares.mean())


@torch.no_grad()
def augment(augmentation: Augmentation, observations: TensorObservation) -> TensorObservation:
    """A batch of observations, changed; keys without an augmentation of their own stay as they are."""
    if not isinstance(observations, dict):
        return augmentation(observations)  # type: ignore[operator]
    return {
        key: augmentation[key](part) if key in augmentation else part  # type: ignore[operator, index]
        for key, part in observations.items()
    }


def usual_augmentation(space: Space) -> BaseAugmentation:
    """What DrAC changes unless it is told otherwise: square images are shifted, vectors get noise."""
    match space:
        case spaces.Box(shape=(_, height, width)) if height == width:
            return RandomCrop(out=height)
        case spaces.Box(shape=(_,)):
            return GaussianNoise()
    raise ValueError(f"there is no usual augmentation for observations of {space}; give one, or one for each key")


def check_augmentation(augmentation: Any, space: Space) -> None:
    """Raise for an augmentation that does not fit the observations."""
    if isinstance(space, spaces.Dict):
        if not isinstance(augmentation, Mapping) or not augmentation:
            raise TypeError(
                f"observations are {space}: give a dictionary of augmentations, such as "
                f"{{{next(iter(space))!r}: {_name(augmentation)}(…)}}"
            )
        for key, part in augmentation.items():
            if key not in space.spaces:
                raise ValueError(f"augmentation[{key!r}] has no observation; there are {sorted(space.spaces)}")
            check_augmentation(part, space[key])
        return
    if not isinstance(augmentation, nn.Module):
        raise TypeError(f"augmentation is {augmentation!r}; expected one of proximo.augmentation, or another module")
    if not isinstance(space, spaces.Box):
        raise ValueError(f"{_name(augmentation)} changes arrays of numbers, the observations are {space}")
    if isinstance(augmentation, BaseAugmentation):
        _check_shape(augmentation, tuple(space.shape))


def _check_shape(augmentation: BaseAugmentation, shape: tuple[int, ...]) -> None:
    dimensions = {"images": 3, "states": 1}.get(augmentation.changes, len(shape))
    if len(shape) != dimensions:
        raise ValueError(
            f"{_name(augmentation)} changes {augmentation.changes} of {dimensions} dimensions, observations have shape "
            f"{shape}"
        )
    if (changed := augmentation.output_shape(shape)) != shape:
        raise ValueError(
            f"{_name(augmentation)} makes {changed} of observations of shape {shape}, which the policy cannot read; "
            "choose one that keeps the shape, such as RandomShift"
        )


def _name(augmentation: Any) -> str:
    return augmentation.__name__ if isinstance(augmentation, type) else type(augmentation).__name__
