"""rllte's module path of RandomCutoutColor."""

from proximo.augmentation import RandomCutoutColor as RandomCutoutColor
