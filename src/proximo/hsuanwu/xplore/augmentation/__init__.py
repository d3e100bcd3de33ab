"""Augmentations of observations, those of :mod:`proximo.augmentation`."""

from proximo.augmentation import BaseAugmentation as BaseAugmentation
from proximo.augmentation import GaussianNoise as GaussianNoise
from proximo.augmentation import GrayScale as GrayScale
from proximo.augmentation import Identity as Identity
from proximo.augmentation import RandomAmplitudeScaling as RandomAmplitudeScaling
from proximo.augmentation import RandomColorJitter as RandomColorJitter
from proximo.augmentation import RandomConvolution as RandomConvolution
from proximo.augmentation import RandomCrop as RandomCrop
from proximo.augmentation import RandomCutout as RandomCutout
from proximo.augmentation import RandomCutoutColor as RandomCutoutColor
from proximo.augmentation import RandomFlip as RandomFlip
from proximo.augmentation import RandomRotate as RandomRotate
from proximo.augmentation import RandomShift as RandomShift
from proximo.augmentation import RandomTranslate as RandomTranslate
