"""rllte's module path of RandomRotate."""

from proximo.augmentation import RandomRotate as RandomRotate
