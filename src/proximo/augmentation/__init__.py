"""Random changes of observations that a policy should not mind: modules from a batch to a batch."""

from proximo.augmentation.base import BaseAugmentation as BaseAugmentation
from proximo.augmentation.base import Identity as Identity
from proximo.augmentation.colors import GrayScale as GrayScale
from proximo.augmentation.colors import RandomColorJitter as RandomColorJitter
from proximo.augmentation.colors import RandomConvolution as RandomConvolution
from proximo.augmentation.colors import RandomCutout as RandomCutout
from proximo.augmentation.colors import RandomCutoutColor as RandomCutoutColor
from proximo.augmentation.geometry import RandomCrop as RandomCrop
from proximo.augmentation.geometry import RandomFlip as RandomFlip
from proximo.augmentation.geometry import RandomRotate as RandomRotate
from proximo.augmentation.geometry import RandomShift as RandomShift
from proximo.augmentation.geometry import RandomTranslate as RandomTranslate
from proximo.augmentation.states import GaussianNoise as GaussianNoise
from proximo.augmentation.states import RandomAmplitudeScaling as RandomAmplitudeScaling
