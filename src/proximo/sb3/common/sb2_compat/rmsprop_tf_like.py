"""RMSprop in TensorFlow's form."""

from proximo.networks.optimizers import RMSpropTFLike as RMSpropTFLike
