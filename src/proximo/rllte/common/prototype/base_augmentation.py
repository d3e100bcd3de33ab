"""rllte's module path of BaseAugmentation."""

from __future__ import annotations

from proximo.rllte.xplore.augmentation.base import BaseAugmentation as BaseAugmentation
