"""rllte's module path of RandomShift."""

from proximo.augmentation import RandomShift as RandomShift
