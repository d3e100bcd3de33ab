"""Running statistics."""

from __future__ import annotations

from proximo.functional.statistics import RunningMeanStd

__all__ = ["RunningMeanStd"]
