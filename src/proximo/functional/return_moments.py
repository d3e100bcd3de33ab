"""Moments of returns, in whose units a value network learns (PopArt, van Hasselt et al. 2016, arXiv 1602.07714)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from proximo.data import Array

RETURN_MOMENTS = "return_moments"  # what they are called in a model file
HORIZON = 20_000.0  # samples that the moments look back on: returns grow while a policy learns
SMALLEST_DEVIATION = 1e-4  # returns that are all alike shall not be blown up


@dataclass(frozen=True)
class ReturnMoments:
    """Mean and variance of the latest returns, and how many samples they stand for; the first ones are the unit.

    >>> moments = ReturnMoments().updated(mean=10.0, variance=4.0, count=100)
    >>> moments.normalize(np.array([12.0], np.float32)), moments.restore(np.array([1.0], np.float32))
    (array([1.], dtype=float32), array([12.], dtype=float32))
    """

    mean: float = 0.0
    variance: float = 1.0
    count: float = 0.0

    @property
    def deviation(self) -> float:
        return max(math.sqrt(self.variance), SMALLEST_DEVIATION)

    def updated(self, mean: float, variance: float, count: float) -> ReturnMoments:
        """With a further batch: the mean over all samples until there are ``HORIZON``, then one that forgets."""
        if count == 0:
            return self
        total = max(min(self.count + count, HORIZON), count)
        weight, distance = count / total, mean - self.mean
        spread = (1.0 - weight) * (self.variance + weight * distance**2) + weight * variance
        return ReturnMoments(self.mean + weight * distance, spread, total)

    def normalize(self, returns: Array) -> Array:
        """(R − μ) / σ"""
        return ((returns.astype(np.float64) - self.mean) / self.deviation).astype(np.float32)

    def restore(self, values: Array) -> Array:
        """σ · V + μ: what values in these units mean."""
        return (values.astype(np.float64) * self.deviation + self.mean).astype(np.float32)

    def numbers(self) -> tuple[float, float, float]:
        return self.mean, self.variance, self.count


def stored_units(moments: ReturnMoments) -> dict[str, torch.Tensor]:
    """The moments as an algorithm keeps them in a model file: what :func:`stored_moments` reads."""
    return {RETURN_MOMENTS: torch.tensor(moments.numbers(), dtype=torch.float64)}


def stored_moments(tensors: Mapping[str, torch.Tensor]) -> ReturnMoments:
    """Those among the tensors that an algorithm keeps in a model file; without them, values are in units of rewards."""
    stored = tensors.get(RETURN_MOMENTS)
    if stored is None:
        return ReturnMoments()
    if stored.shape != (3,) or not stored.isfinite().all() or stored[1] < 0 or stored[2] < 0:
        raise ValueError(f"{RETURN_MOMENTS} is {stored}; expected a mean, a variance and a count")
    return ReturnMoments(*stored.tolist())
