"""rllte's module path of RandomCrop."""

from proximo.augmentation import RandomCrop as RandomCrop
