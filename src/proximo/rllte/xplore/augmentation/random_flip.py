"""rllte's module path of RandomFlip."""

from proximo.augmentation import RandomFlip as RandomFlip
