"""Encoders known by the papers that they come from, as rllte and Hsuanwu name them.

They read observations as the environment shows them: images of any number type, whose division by 255 is theirs. A
policy that has one as ``features_extractor_class`` leaves it to them (``divides_images``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from proximo.files.encoding import register_class
from proximo.functional.spaces import Space, get_flattened_obs_dim, preprocess_obs
from proximo.networks.encoders import (
    BaseFeaturesExtractor,
    ImpalaCNN,
    dqn_convolutions,
    flat_size,
    module_names,
    residual_stages,
)


class BaseEncoder(BaseFeaturesExtractor):
    """Base of an encoder: ``forward`` maps observations, as the environment shows them, to [batch, feature_dim]."""

    divides_images = True

    def __init__(self, observation_space: Space, feature_dim: int = 0) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        """
        super().__init__(observation_space, feature_dim)
        self.observation_space = observation_space
        self.feature_dim = feature_dim


class IdentityEncoder(BaseEncoder):
    """Vectors as they are, discrete observations one-hot."""

    divides_images = False

    def __init__(self, observation_space: Space, feature_dim: int = 64) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        """
        width = get_flattened_obs_dim(observation_space)
        if feature_dim != width:
            raise ValueError(
                f"IdentityEncoder changes nothing: feature_dim is {feature_dim}, but {observation_space} has {width} "
                f"numbers; pass feature_dim={width}, or use VanillaMlpEncoder for another width"
            )
        super().__init__(observation_space, feature_dim)

    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1)


class VanillaMlpEncoder(BaseEncoder):
    """Two Tanh layers for vectors."""

    divides_images = False

    def __init__(self, observation_space: Space, feature_dim: int = 64, hidden_dim: int = 64) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        hidden_dim: Width of the first layer.
        """
        super().__init__(observation_space, feature_dim)
        self.trunk = nn.Sequential(
            nn.Linear(get_flattened_obs_dim(observation_space), hidden_dim),
            nn.Tanh(),
            nn.Linear(hidden_dim, feature_dim),
            nn.Tanh(),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.trunk(obs.flatten(1))


class ImageEncoder(BaseEncoder):
    """A convolutional trunk and one linear layer, over images [batch, channels, height, width].

    Pixels are divided by 255 unless the space says that they lie within 0 and 1 already.
    """

    def __init__(self, observation_space: Space, feature_dim: int = 512) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        """
        shape = observation_space.shape
        if not isinstance(observation_space, spaces.Box) or shape is None or len(shape) != 3:
            raise ValueError(
                f"{type(self).__name__} reads images (a Box of channels, height, width), got {observation_space}; use "
                "VanillaMlpEncoder or IdentityEncoder for vectors, RaffinCombinedEncoder for Dict observations"
            )
        super().__init__(observation_space, feature_dim)
        self.scale = 255.0 if np.any(observation_space.high > 1.0) else 1.0
        self.trunk = self._make_trunk(shape[0])
        too_small = (
            f"{type(self).__name__}; resize them, or take an encoder with smaller strides such as PathakCnnEncoder"
        )
        self.linear = nn.Linear(flat_size(self.trunk, shape, too_small), feature_dim)

    def _make_trunk(self, channels: int) -> nn.Sequential:
        raise NotImplementedError(f"{type(self).__name__} must make its convolutions in _make_trunk(channels)")

    def forward(self, obs: Tensor) -> Tensor:
        # channels last: a third faster on a CPU, and the same numbers
        pixels = obs.contiguous(memory_format=torch.channels_last).float()
        return self.activate(self.linear(self.trunk(self.scaled(pixels))))

    def scaled(self, pixels: Tensor) -> Tensor:
        """Pixels as the network reads them."""
        return pixels / self.scale if self.scale != 1.0 else pixels

    def activate(self, features: Tensor) -> Tensor:
        """What follows the last layer."""
        return functional.relu(features)


class MnihCnnEncoder(ImageEncoder):
    """The network of DQN (Mnih et al. 2013), with 32 channels in the third layer."""

    smallest_image: ClassVar[int] = 36  # pixels: the third layer then sees three by three

    def _make_trunk(self, channels: int) -> nn.Sequential:
        return nn.Sequential(*dqn_convolutions(channels, last=32), nn.Flatten())


class PathakCnnEncoder(ImageEncoder):
    """The network of the intrinsic curiosity module (Pathak et al. 2017); it takes small images too."""

    def _make_trunk(self, channels: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for inputs in (channels, 32, 32, 32):
            layers += [nn.Conv2d(inputs, 32, kernel_size=3, stride=2, padding=1), nn.ELU(inplace=True)]
        return nn.Sequential(*layers, nn.Flatten())


class TassaCnnEncoder(ImageEncoder):
    """The network used on the DeepMind Control Suite (Tassa et al. 2018): pixels around zero, no last activation."""

    def __init__(self, observation_space: Space, feature_dim: int = 50) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        """
        super().__init__(observation_space, feature_dim)

    def _make_trunk(self, channels: int) -> nn.Sequential:
        layers: list[nn.Module] = [nn.Conv2d(channels, 32, kernel_size=3, stride=2), nn.ReLU(inplace=True)]
        for _ in range(3):
            layers += [nn.Conv2d(32, 32, kernel_size=3, stride=1), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers, nn.Flatten())

    def scaled(self, pixels: Tensor) -> Tensor:
        return super().scaled(pixels) - 0.5

    def activate(self, features: Tensor) -> Tensor:
        return features


class EspeholtResidualEncoder(ImageEncoder):
    """IMPALA's residual network (Espeholt et al. 2018), the usual one on Procgen.

    ``net_arch`` are the channels of its :func:`residual_stages`.
    """

    init_gain: ClassVar[float] = ImpalaCNN.init_gain

    def __init__(
        self, observation_space: Space, feature_dim: int = 256, net_arch: Sequence[int] = (16, 32, 32)
    ) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        net_arch: Channels of its three stages.
        """
        self.net_arch = tuple(net_arch)
        super().__init__(observation_space, feature_dim)

    def _make_trunk(self, channels: int) -> nn.Sequential:
        return nn.Sequential(*residual_stages(channels, self.net_arch), nn.Flatten(), nn.ReLU(inplace=True))


class RaffinCombinedEncoder(BaseEncoder):
    """For Dict observations: a PathakCnnEncoder for each image, the rest flat, and one linear layer over all."""

    def __init__(self, observation_space: Space, feature_dim: int = 256, cnn_output_dim: int = 256) -> None:
        """Arguments:
        observation_space: The space of one observation.
        feature_dim: Width of the features that it gives.
        cnn_output_dim: Features of each image.
        """
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(
                f"RaffinCombinedEncoder reads Dict observations, got {observation_space}; use MnihCnnEncoder for "
                "images, VanillaMlpEncoder for vectors"
            )
        super().__init__(observation_space, feature_dim)
        self.cnn_output_dim = cnn_output_dim
        encoders: dict[str, Any] = {}
        width = 0
        for key, space in observation_space.spaces.items():
            if space.shape is not None and len(space.shape) == 3:
                encoders[key] = PathakCnnEncoder(space, cnn_output_dim)
                width += cnn_output_dim
            else:
                encoders[key] = nn.Flatten()
                width += get_flattened_obs_dim(space)
        names = module_names(encoders)
        self.encoders = nn.ModuleDict({names[key]: encoder for key, encoder in encoders.items()})
        self._keys = {name: key for key, name in names.items()}
        self.linear = nn.Linear(width, feature_dim)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        parts = [encode(obs[self._keys[name]]) for name, encode in self.encoders.items()]
        return self.linear(torch.cat(parts, dim=1))


def usual_encoder(space: Space, feature_dim: int) -> BaseEncoder:
    """The encoder that rllte's agents have unless they are told otherwise; vectors stay as they are."""
    if isinstance(space, spaces.Dict):
        return RaffinCombinedEncoder(space, feature_dim)
    if space.shape is not None and len(space.shape) == 3:
        # a grid, say, with a few pixels for each field
        small = min(space.shape[1:]) < MnihCnnEncoder.smallest_image
        return PathakCnnEncoder(space, feature_dim) if small else MnihCnnEncoder(space, feature_dim)
    return IdentityEncoder(space, get_flattened_obs_dim(space))


def output_width(encoder: nn.Module, space: Space) -> int:
    """How many features an encoder gives for one observation of the space."""
    device = next((part.device for part in encoder.parameters()), torch.device("cpu"))
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    zeros = {key: torch.zeros(2, *part.shape, device=device) for key, part in parts.items()}  # type: ignore[misc]
    tensors = zeros if isinstance(space, spaces.Dict) else zeros[""]
    was_training = encoder.training
    try:
        with torch.no_grad():
            features = encoder.eval()(preprocess_obs(tensors, space, normalize_images=False))
    except RuntimeError as error:
        raise ValueError(f"{type(encoder).__name__} cannot read observations of {space}: {error}") from error
    finally:
        encoder.train(was_training)
    if features.dim() != 2 or len(features) != 2:
        raise ValueError(
            f"{type(encoder).__name__} gives shape {tuple(features.shape)} for two observations of {space}; "
            "expected [batch, feature_dim]"
        )
    return int(features.shape[1])


for _class in (
    IdentityEncoder,
    VanillaMlpEncoder,
    MnihCnnEncoder,
    PathakCnnEncoder,
    TassaCnnEncoder,
    EspeholtResidualEncoder,
    RaffinCombinedEncoder,
):
    register_class(_class.__name__, _class)
