"""The fused backend: numba kernels that run and train a perceptron policy within a call, for policies on the CPU.

Importing this package does not import numba; making a :class:`FusedBackend` does.
"""

from __future__ import annotations

from proximo.backends.fused.backend import EpochStatus, FusedBackend
from proximo.backends.fused.obstacles import fused_obstacle, settings_obstacle

__all__ = ["EpochStatus", "FusedBackend", "fused_obstacle", "settings_obstacle"]
