"""Augmentations of state vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from proximo.augmentation.base import StateAugmentation, check_states


class GaussianNoise(StateAugmentation):
    """x + z, z ~ Normal(mu, sigma) for each number."""

    def __init__(self, mu: float = 0.0, sigma: float = 1.0) -> None:
        """Arguments:
        mu: Mean of the noise.
        sigma: Deviation of the noise, in the units of the observation.
        """
        super().__init__()
        if sigma < 0.0:
            raise ValueError(f"sigma must not be negative, got {sigma}")
        self.mu, self.sigma = mu, sigma

    def forward(self, x: Tensor) -> Tensor:
        check_states(x)
        return x + self.mu + self.sigma * torch.randn_like(x)


class RandomAmplitudeScaling(StateAugmentation):
    """z · x, z ~ Uniform(low, high) for each number."""

    def __init__(self, low: float = 0.6, high: float = 1.2) -> None:
        """Arguments:
        low: The smallest factor.
        high: The largest factor.
        """
        super().__init__()
        if low > high:
            raise ValueError(f"low must not exceed high, got {low} and {high}")
        self.low, self.high = low, high

    def forward(self, x: Tensor) -> Tensor:
        check_states(x)
        return x * (self.low + (self.high - self.low) * torch.rand_like(x))
