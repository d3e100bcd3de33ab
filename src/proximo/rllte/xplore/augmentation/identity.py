"""rllte's module path of Identity."""

from proximo.augmentation import Identity as Identity
