"""rllte's module path of GaussianNoise."""

from proximo.augmentation import GaussianNoise as GaussianNoise
