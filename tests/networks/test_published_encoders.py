"""Encoders by the names of their papers: shapes, scaling, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from proximo.functional.spaces import preprocess_obs
from proximo.networks.published_encoders import (
    EspeholtResidualEncoder,
    IdentityEncoder,
    MnihCnnEncoder,
    PathakCnnEncoder,
    RaffinCombinedEncoder,
    TassaCnnEncoder,
    VanillaMlpEncoder,
)

IMAGES = spaces.Box(0, 255, (4, 84, 84), np.uint8)
CONVOLUTIONS = {
    MnihCnnEncoder: [(4, 32, 8, 4), (32, 64, 4, 2), (64, 32, 3, 1)],
    PathakCnnEncoder: [(4, 32, 3, 2), (32, 32, 3, 2), (32, 32, 3, 2), (32, 32, 3, 2)],
    TassaCnnEncoder: [(4, 32, 3, 2), (32, 32, 3, 1), (32, 32, 3, 1), (32, 32, 3, 1)],
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_are_those_of_the_paper(kind: Any) -> None:
    encoder = kind(IMAGES, feature_dim=20)
    layers = [layer for layer in encoder.trunk if isinstance(layer, nn.Conv2d)]
    found = [(layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0]) for layer in layers]
    assert found == CONVOLUTIONS[kind]
    features = encoder(torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8))
    assert features.shape == (3, 20)
    assert (features.min() >= 0.0) == (kind is not TassaCnnEncoder)


def test_residual_stages_halve_the_image() -> None:
    encoder = EspeholtResidualEncoder(spaces.Box(0, 255, (3, 64, 64), np.uint8), feature_dim=7, net_arch=[8, 16])
    assert encoder.linear.in_features == 16 * 16 * 16
    parameters = sum(part.numel() for part in encoder.trunk.parameters())
    stages = sum(
        9 * inputs * outputs + outputs + 4 * (9 * outputs**2 + outputs) for inputs, outputs in [(3, 8), (8, 16)]
    )
    assert parameters == stages
    with pytest.raises(ValueError, match="list of channels is empty"):
        EspeholtResidualEncoder(IMAGES, 7, net_arch=[])


@pytest.mark.parametrize("kind", [*CONVOLUTIONS, EspeholtResidualEncoder])
def test_bytes_and_the_same_images_between_0_and_1_give_the_same_features(kind: Any) -> None:
    torch.manual_seed(0)
    of_bytes = kind(IMAGES, feature_dim=20)
    of_floats = kind(spaces.Box(0.0, 1.0, IMAGES.shape, np.float32), feature_dim=20)
    of_floats.load_state_dict(of_bytes.state_dict())
    images = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(of_bytes(images), of_floats(images.float() / 255.0))


def test_vectors() -> None:
    space = spaces.Box(-1.0, 1.0, (5,))
    rows = torch.randn(3, 5)
    assert torch.equal(IdentityEncoder(space, 5)(rows), rows)
    features = VanillaMlpEncoder(space, feature_dim=6, hidden_dim=9)(rows)
    assert features.shape == (3, 6)
    assert features.abs().max() < 1.0


def test_dictionaries_divide_images_by_255_once() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (3, 20, 20), np.uint8), "choice": spaces.Discrete(4)})
    encoder = RaffinCombinedEncoder(space, feature_dim=6, cnn_output_dim=10)
    assert encoder.linear.in_features == 10 + 4
    given = {"image": torch.full((2, 3, 20, 20), 255, dtype=torch.uint8), "choice": torch.tensor([1, 3])}
    seen: list[torch.Tensor] = []
    encoder.encoders["image"].trunk.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    assert encoder(preprocess_obs(given, space, normalize_images=False)).shape == (2, 6)
    assert (seen[0] == 1.0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MnihCnnEncoder(spaces.Box(0, 255, (3, 16, 16), np.uint8), 8), "too small for MnihCnnEncoder"),
        (lambda: PathakCnnEncoder(spaces.Box(0.0, 1.0, (5,)), 8), "reads images"),
        (lambda: RaffinCombinedEncoder(IMAGES, 8), "reads Dict observations"),
        (lambda: VanillaMlpEncoder(spaces.Box(0.0, 1.0, (5,)), 0), "must be positive"),
    ],
)
def test_what_does_not_fit_is_said(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
