"""RMSprop in TensorFlow's form."""

from __future__ import annotations

from proximo.networks.optimizers import RMSpropTFLike

__all__ = ["RMSpropTFLike"]
