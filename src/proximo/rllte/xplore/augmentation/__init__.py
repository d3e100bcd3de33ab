"""Random changes of observations that a policy should not mind: modules from a batch to a batch."""

from __future__ import annotations

from proximo.rllte.xplore.augmentation.base import BaseAugmentation, Identity
from proximo.rllte.xplore.augmentation.colors import (
    GrayScale,
    RandomColorJitter,
    RandomConvolution,
    RandomCutout,
    RandomCutoutColor,
)
from proximo.rllte.xplore.augmentation.geometry import (
    RandomCrop,
    RandomFlip,
    RandomRotate,
    RandomShift,
    RandomTranslate,
)
from proximo.rllte.xplore.augmentation.states import GaussianNoise, RandomAmplitudeScaling

__all__ = [
    "BaseAugmentation",
    "GaussianNoise",
    "GrayScale",
    "Identity",
    "RandomAmplitudeScaling",
    "RandomColorJitter",
    "RandomConvolution",
    "RandomCrop",
    "RandomCutout",
    "RandomCutoutColor",
    "RandomFlip",
    "RandomRotate",
    "RandomShift",
    "RandomTranslate",
]
