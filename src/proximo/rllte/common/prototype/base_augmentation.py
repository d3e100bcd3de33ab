"""rllte's module path of BaseAugmentation."""

from proximo.augmentation.base import BaseAugmentation as BaseAugmentation
