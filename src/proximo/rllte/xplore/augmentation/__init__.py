"""Random changes of observations that a policy should not mind: modules from a batch to a batch."""

from proximo.rllte.xplore.augmentation.base import BaseAugmentation as BaseAugmentation
from proximo.rllte.xplore.augmentation.base import Identity as Identity
from proximo.rllte.xplore.augmentation.colors import GrayScale as GrayScale
from proximo.rllte.xplore.augmentation.colors import RandomColorJitter as RandomColorJitter
from proximo.rllte.xplore.augmentation.colors import RandomConvolution as RandomConvolution
from proximo.rllte.xplore.augmentation.colors import RandomCutout as RandomCutout
from proximo.rllte.xplore.augmentation.colors import RandomCutoutColor as RandomCutoutColor
from proximo.rllte.xplore.augmentation.geometry import RandomCrop as RandomCrop
from proximo.rllte.xplore.augmentation.geometry import RandomFlip as RandomFlip
from proximo.rllte.xplore.augmentation.geometry import RandomRotate as RandomRotate
from proximo.rllte.xplore.augmentation.geometry import RandomShift as RandomShift
from proximo.rllte.xplore.augmentation.geometry import RandomTranslate as RandomTranslate
from proximo.rllte.xplore.augmentation.states import GaussianNoise as GaussianNoise
from proximo.rllte.xplore.augmentation.states import RandomAmplitudeScaling as RandomAmplitudeScaling
