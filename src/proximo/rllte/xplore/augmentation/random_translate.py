"""rllte's module path of RandomTranslate."""

from proximo.augmentation import RandomTranslate as RandomTranslate
