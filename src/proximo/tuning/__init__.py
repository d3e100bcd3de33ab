"""Tuning: search spaces as data, and studies whose trials go on from their checkpoints."""

from proximo.tuning.space import Space
from proximo.tuning.study import Study

__all__ = ["Space", "Study"]
