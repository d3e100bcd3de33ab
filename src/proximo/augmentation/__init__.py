"""Random changes of observations that a policy should not mind: modules from a batch to a batch.

``PPO(…, augmentation=RandomShift())`` trains with DrAC's terms: policy and value of changed observations are pulled to
those of the plain ones. ``augmentation=Mirror(…)`` is for tasks with a symmetry: mirrored samples train too.
"""

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
from proximo.augmentation.regularizer import Augmentation as Augmentation
from proximo.augmentation.regularizer import augment as augment
from proximo.augmentation.regularizer import augmentation_terms as augmentation_terms
from proximo.augmentation.regularizer import check_augmentation as check_augmentation
from proximo.augmentation.regularizer import usual_augmentation as usual_augmentation
from proximo.augmentation.states import GaussianNoise as GaussianNoise
from proximo.augmentation.states import RandomAmplitudeScaling as RandomAmplitudeScaling
from proximo.augmentation.symmetry import Mirror as Mirror
from proximo.files.encoding import register_arguments

AUGMENTATIONS: dict[str, type[BaseAugmentation]] = {
    "identity": Identity,
    "gray_scale": GrayScale,
    "random_color_jitter": RandomColorJitter,
    "random_convolution": RandomConvolution,
    "random_cutout": RandomCutout,
    "random_cutout_color": RandomCutoutColor,
    "random_crop": RandomCrop,
    "random_flip": RandomFlip,
    "random_rotate": RandomRotate,
    "random_shift": RandomShift,
    "random_translate": RandomTranslate,
    "gaussian_noise": GaussianNoise,
    "random_amplitude_scaling": RandomAmplitudeScaling,
}
"""By the names that flags and presets use."""

for _class in (*AUGMENTATIONS.values(), Mirror):
    register_arguments(_class, BaseAugmentation.arguments)
