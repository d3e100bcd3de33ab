"""rllte's module path of BaseAugmentation."""

from proximo.rllte.xplore.augmentation.base import BaseAugmentation as BaseAugmentation
