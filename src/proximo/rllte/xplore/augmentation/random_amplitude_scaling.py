"""rllte's module path of RandomAmplitudeScaling."""

from proximo.augmentation import RandomAmplitudeScaling as RandomAmplitudeScaling
