"""rllte's module path of GrayScale."""

from proximo.augmentation import GrayScale as GrayScale
