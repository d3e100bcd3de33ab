"""rllte's module path of RandomColorJitter."""

from proximo.augmentation import RandomColorJitter as RandomColorJitter
