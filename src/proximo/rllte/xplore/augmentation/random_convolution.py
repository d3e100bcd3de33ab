"""rllte's module path of RandomConvolution."""

from proximo.augmentation import RandomConvolution as RandomConvolution
