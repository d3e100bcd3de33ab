"""rllte's module path of RandomCutout."""

from proximo.augmentation import RandomCutout as RandomCutout
