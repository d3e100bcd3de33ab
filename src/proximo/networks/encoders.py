"""Networks from observations to features, and from features to the latents of policy and value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from proximo.errors import ArgumentValueError
from proximo.functional.spaces import Space, get_flattened_obs_dim, is_image_space
from proximo.networks.hooks import has_hooks

NetArch = list[int] | dict[str, list[int]]


class BaseFeaturesExtractor(nn.Module):
    """Base of a features extractor: ``forward`` maps preprocessed observations to [batch, features_dim]."""

    init_gain: ClassVar[float] = math.sqrt(2)  # of orthogonal weights: layers of ReLU keep the scale of their input
    divides_images: ClassVar[bool] = False  # whether images come as they are: the policy divides by 255 otherwise

    def __init__(self, observation_space: Space, features_dim: int = 0) -> None:
        """Arguments:
        observation_space: The space of one observation.
        features_dim: Width of the features that it gives.
        """
        super().__init__()
        if features_dim <= 0:
            raise ArgumentValueError(f"features_dim must be positive, got {features_dim}")
        self._observation_space = observation_space
        self._features_dim = features_dim

    @property
    def features_dim(self) -> int:
        """Width of the features."""
        return self._features_dim


class FlattenExtractor(BaseFeaturesExtractor):
    """The observation as one flat vector."""

    def __init__(self, observation_space: Space) -> None:
        """Arguments:
        observation_space: The space of one observation.
        """
        super().__init__(observation_space, get_flattened_obs_dim(observation_space))
        self.flatten = nn.Flatten()

    def forward(self, observations: Tensor) -> Tensor:
        return self.flatten(observations)


class ImageCNN(BaseFeaturesExtractor):
    """Base of the image encoders: convolutions ``cnn``, then ``linear``; bytes may be read as they come."""

    cnn: nn.Sequential
    linear: nn.Sequential

    def __init__(self, observation_space: Space, features_dim: int, normalized_image: bool) -> None:
        """Arguments:
        observation_space: The space of one observation.
        features_dim: Width of the features that it gives.
        normalized_image: Whether images are floats within 0 and 1; otherwise they must be bytes.
        """
        if not is_image_space(observation_space, check_channels=False, normalized_image=normalized_image):
            raise ArgumentValueError(
                f"{type(self).__name__} reads images: Box of three dimensions, dtype uint8, bounds 0 to 255; got "
                f"{observation_space}. Use MlpPolicy for vectors, or pass "
                "policy_kwargs={'normalize_images': False} if the images are floats already"
            )
        super().__init__(observation_space, features_dim)

    def forward(self, observations: Tensor) -> Tensor:
        # a third faster on a CPU than channels-first, and the same numbers
        return self.linear(self.cnn(observations.contiguous(memory_format=torch.channels_last)))

    def reads_bytes(self) -> bool:
        """Whether :meth:`forward_bytes` may stand for a call: not if what it skips was replaced or has hooks."""
        if type(self).forward is not ImageCNN.forward or type(self.cnn) is not nn.Sequential:
            return False
        first = next(iter(self.cnn), None)
        return type(first) is nn.Conv2d and not (has_hooks(self) or has_hooks(self.cnn) or has_hooks(first))

    def forward_bytes(self, images: Tensor) -> Tensor:
        """The same for images of bytes: the division by 255 goes into the first layer's few weights."""
        first: Any
        first, *others = self.cnn
        pixels = images.contiguous(memory_format=torch.channels_last).float()
        hidden = first._conv_forward(pixels, first.weight / 255.0, first.bias)
        for layer in others:
            hidden = layer(hidden)
        return self.linear(hidden)


def dqn_convolutions(channels: int, last: int = 64) -> list[nn.Module]:
    """The three convolutions of DQN (Mnih et al. 2015), of which the third gives ``last`` channels."""
    # in place: the activations of the first layer are the largest arrays of a training step
    return [
        nn.Conv2d(channels, 32, kernel_size=8, stride=4),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, kernel_size=4, stride=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(64, last, kernel_size=3, stride=1),
        nn.ReLU(inplace=True),
    ]


def flat_size(convolutions: nn.Module, shape: Sequence[int], reader: str) -> int:
    """How many numbers convolutions make of an image; the error for images that are too small names ``reader``."""
    try:
        with torch.no_grad():
            return int(convolutions(torch.zeros(1, *shape)).shape[1])
    except RuntimeError as error:
        raise ValueError(
            f"images of shape {tuple(shape)} (channels, height, width) are too small for {reader}"
        ) from error


class NatureCNN(ImageCNN):
    """The convolutional network of DQN (Mnih et al. 2015): three convolutions and one linear layer."""

    def __init__(self, observation_space: Space, features_dim: int = 512, normalized_image: bool = False) -> None:
        """Arguments:
        observation_space: The space of one observation.
        features_dim: Width of the features that it gives.
        normalized_image: Whether images are floats within 0 and 1; otherwise they must be bytes.
        """
        super().__init__(observation_space, features_dim, normalized_image)
        shape: tuple[int, ...] = observation_space.shape  # type: ignore[assignment]
        self.cnn = nn.Sequential(*dqn_convolutions(shape[0]), nn.Flatten())
        too_small = (
            "NatureCNN, which needs at least 36 x 36 pixels; resize them or pass your own features_extractor_class"
        )
        self.linear = nn.Sequential(
            nn.Linear(flat_size(self.cnn, shape, too_small), features_dim), nn.ReLU(inplace=True)
        )


class MinAtarCNN(ImageCNN):
    """The small network of MinAtar's paper (Young and Tian 2019): one convolution of 3 x 3 cells, one linear layer."""

    def __init__(self, observation_space: Space, features_dim: int = 128, normalized_image: bool = False) -> None:
        super().__init__(observation_space, features_dim, normalized_image)
        shape: tuple[int, ...] = observation_space.shape  # type: ignore[assignment]
        self.cnn = nn.Sequential(nn.Conv2d(shape[0], 16, kernel_size=3), nn.ReLU(inplace=True), nn.Flatten())
        flat = flat_size(self.cnn, shape, "MinAtarCNN, which needs at least 3 x 3 cells")
        self.linear = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU(inplace=True))


class ResidualBlock(nn.Module):
    """x + conv(ReLU(conv(ReLU(x)))), both of three by three pixels."""

    def __init__(self, channels: int) -> None:
        """Arguments:
        channels: Channels that come in and go out.
        """
        super().__init__()
        self.first = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.second = nn.Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.first(functional.relu(images))
        return images + self.second(functional.relu(hidden, inplace=True))


def residual_stages(inputs: int, channels: Sequence[int]) -> list[nn.Module]:
    """For each entry of ``channels``: a convolution, a pooling that halves the image, two residual blocks."""
    if not channels:
        raise ValueError("the list of channels is empty; expected those of at least one stage, such as [16, 32, 32]")
    layers: list[nn.Module] = []
    for before, width in pairwise((inputs, *channels)):
        layers += [nn.Conv2d(before, width, kernel_size=3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [ResidualBlock(width), ResidualBlock(width)]
    return layers


class ImpalaCNN(ImageCNN):
    """The residual network of IMPALA (Espeholt et al. 2018), which Procgen is usually played with.

    ``channels`` are those of its :func:`residual_stages`.
    """

    init_gain: ClassVar[float] = 1.0  # every residual block adds its branch to its input; √2 would double the variance

    def __init__(
        self,
        observation_space: Space,
        features_dim: int = 256,
        normalized_image: bool = False,
        channels: Sequence[int] = (16, 32, 32),
    ) -> None:
        """Arguments:
        observation_space: The space of one observation.
        features_dim: Width of the features that it gives.
        normalized_image: Whether images are floats within 0 and 1; otherwise they must be bytes.
        channels: Channels of its three stages.
        """
        super().__init__(observation_space, features_dim, normalized_image)
        inputs, *size = observation_space.shape  # type: ignore[misc]
        self.cnn = nn.Sequential(*residual_stages(inputs, channels), nn.ReLU(inplace=True), nn.Flatten())
        flat = channels[-1] * math.prod(-(-side // 2 ** len(channels)) for side in size)
        self.linear = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU(inplace=True))


def module_names(keys: Iterable[str]) -> dict[str, str]:
    """For each key of a Dict observation the name of its module: the key itself, as in Stable-Baselines3.

    PyTorch takes no name with a dot, and none that a container of modules has itself, such as "type" and "values";
    what has such a key is called by its place.

    >>> module_names(["speed", "camera.rgb", "type"])
    {'speed': 'speed', 'camera.rgb': 'part_1', 'type': 'part_2'}
    """
    container, names, keys = nn.ModuleDict(), {}, list(keys)
    for place, key in enumerate(keys):
        names[key] = key
        if "." in key or hasattr(container, key):
            names[key] = f"part_{place}"
            while names[key] in keys:
                names[key] += "_"
    return names


class CombinedExtractor(BaseFeaturesExtractor):
    """For Dict observations: NatureCNN for each image, the flat vector for the rest, all side by side."""

    def __init__(
        self, observation_space: spaces.Dict, cnn_output_dim: int = 256, normalized_image: bool = False
    ) -> None:
        """Arguments:
        observation_space: The space of one observation.
        cnn_output_dim: Features of each image.
        normalized_image: Whether images are floats within 0 and 1; otherwise they must be bytes.
        """
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(
                f"MultiInputPolicy reads Dict observations, got {observation_space}; use 'MlpPolicy' for vectors or "
                "'CnnPolicy' for images"
            )
        extractors: dict[str, nn.Module] = {}
        width = 0
        for key, space in observation_space.spaces.items():
            if is_image_space(space, normalized_image=normalized_image):
                extractors[key] = NatureCNN(space, features_dim=cnn_output_dim, normalized_image=normalized_image)
                width += cnn_output_dim
            else:
                extractors[key] = nn.Flatten()
                width += get_flattened_obs_dim(space)
        super().__init__(observation_space, width)
        names = module_names(extractors)
        self.extractors = nn.ModuleDict({names[key]: extractor for key, extractor in extractors.items()})
        self._keys = {name: key for key, name in names.items()}

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        parts = self.extractors.items()  # a subclass may have others
        return torch.cat([extract(observations[self._keys.get(name, name)]) for name, extract in parts], dim=1)


def create_mlp(
    input_dim: int,
    output_dim: int,
    net_arch: Sequence[int],
    activation_fn: type[nn.Module] = nn.ReLU,
    squash_output: bool = False,
    with_bias: bool = True,
    pre_linear_modules: Sequence[type[nn.Module]] | None = None,
    post_linear_modules: Sequence[type[nn.Module]] | None = None,
) -> list[nn.Module]:
    """Layers of a perceptron; ``output_dim`` ≤ 0 leaves the output layer out.

    >>> [type(layer).__name__ for layer in create_mlp(4, 2, [8])]
    ['Linear', 'ReLU', 'Linear']
    """
    before, after = list(pre_linear_modules or ()), list(post_linear_modules or ())
    layers: list[nn.Module] = []
    width = input_dim
    for size in net_arch:
        layers += [module(width) for module in before]
        layers.append(nn.Linear(width, size, bias=with_bias))
        layers += [module(size) for module in after]
        layers.append(activation_fn())
        width = size
    if output_dim > 0:
        layers += [module(width) for module in before]
        layers.append(nn.Linear(width, output_dim, bias=with_bias))
    if squash_output:
        layers.append(nn.Tanh())
    return layers


def get_actor_critic_arch(net_arch: NetArch) -> tuple[list[int], list[int]]:
    """Layer sizes of policy and value network: a list serves both.

    >>> get_actor_critic_arch({"pi": [32], "vf": [64, 64]})
    ([32], [64, 64])
    """
    if isinstance(net_arch, dict):
        if not {"pi", "vf"} <= net_arch.keys():
            raise ValueError(f"net_arch as a dict needs the keys 'pi' and 'vf', got {sorted(net_arch)}")
        return list(net_arch["pi"]), list(net_arch["vf"])
    return list(net_arch), list(net_arch)


class MlpExtractor(nn.Module):
    """Two perceptrons from the features: one for the policy, one for the value, which may have other features."""

    def __init__(
        self,
        feature_dim: int,
        net_arch: NetArch,
        activation_fn: type[nn.Module],
        device: torch.device | str = "auto",
        value_feature_dim: int | None = None,  # None: as many as the policy
    ) -> None:
        """Arguments:
        feature_dim: Width of the features that come in.
        net_arch: Widths of the hidden layers: a list for both, or dict(pi=[…], vf=[…]).
        activation_fn: The activation behind each layer, a class.
        device: Where it computes: auto, cpu, cuda, …
        value_feature_dim: Width of the features for the value; None is that of the policy.
        """
        super().__init__()
        value_feature_dim = feature_dim if value_feature_dim is None else value_feature_dim
        policy_sizes, value_sizes = self._sizes(net_arch)
        self.policy_net = nn.Sequential(*create_mlp(feature_dim, 0, policy_sizes, activation_fn))
        self.value_net = nn.Sequential(*create_mlp(value_feature_dim, 0, value_sizes, activation_fn))
        self.latent_dim_pi = policy_sizes[-1] if policy_sizes else feature_dim
        self.latent_dim_vf = value_sizes[-1] if value_sizes else value_feature_dim
        if device != "auto":
            self.to(device)

    @staticmethod
    def _sizes(net_arch: Any) -> tuple[list[int], list[int]]:
        if isinstance(net_arch, dict):  # a missing network has no layers of its own
            net_arch = {"pi": net_arch.get("pi", []), "vf": net_arch.get("vf", [])}
        policy_sizes, value_sizes = get_actor_critic_arch(net_arch)
        if not all(isinstance(size, int) and size > 0 for size in policy_sizes + value_sizes):
            raise ValueError(
                f"net_arch must be a list of positive layer sizes or {{'pi': [...], 'vf': [...]}}, got {net_arch}"
            )
        return policy_sizes, value_sizes

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """What the policy's head reads."""
        return self.policy_net(features)

    def forward_critic(self, features: Tensor) -> Tensor:
        """What the value's head reads."""
        return self.value_net(features)
