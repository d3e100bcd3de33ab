"""The networks of intrinsic rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from proximo.errors import near_matches
from proximo.exploration.observations import ObservationReader, Part
from proximo.networks.encoders import dqn_convolutions, flat_size

ENCODER_MODELS = ("mnih", "espeholt", "pathak")
WEIGHT_INITS = ("default", "orthogonal")


def check_encoder(encoder_model: str, weight_init: str) -> None:
    if encoder_model not in ENCODER_MODELS:
        raise ValueError(f"unknown encoder_model {encoder_model!r}; {near_matches(encoder_model, ENCODER_MODELS)}")
    if weight_init not in WEIGHT_INITS:
        raise ValueError(f"unknown weight_init {weight_init!r}; {near_matches(weight_init, WEIGHT_INITS)}")


def make_encoder(reader: ObservationReader, latent_dim: int, encoder_model: str, weight_init: str) -> nn.Module:
    """The encoder for what a reader gives: [batch, *shape] → [batch, latent_dim]."""
    if any(part.image is not None for part in reader.parts):
        return PartsEncoder(reader.parts, latent_dim, encoder_model, weight_init)
    return ObservationEncoder(reader.shape, latent_dim, encoder_model, weight_init)


class ObservationEncoder(nn.Module):
    """Observations [batch, *obs_shape] → [batch, latent_dim].

    Images (channels first) go through convolutions: "mnih" has DQN's three; "pathak", also known as "espeholt",
    has four of 3 × 3 with stride 2, for images of any size. Everything else goes through one hidden layer of 256.
    """

    def __init__(
        self, obs_shape: Sequence[int], latent_dim: int, encoder_model: str = "mnih", weight_init: str = "default"
    ) -> None:
        super().__init__()
        check_encoder(encoder_model, weight_init)
        if len(obs_shape) == 3:
            convolutions = nn.Sequential(*_convolutions(obs_shape[0], encoder_model), nn.Flatten())
            too_small = "encoder_model='mnih', which needs 36 x 36 pixels; use encoder_model='pathak'"
            width = flat_size(convolutions, obs_shape, too_small)
            self.trunk = nn.Sequential(*convolutions, nn.Linear(width, latent_dim))
        else:
            self.trunk = nn.Sequential(
                nn.Flatten(), nn.Linear(math.prod(obs_shape), 256), nn.ReLU(), nn.Linear(256, latent_dim)
            )
        if weight_init == "orthogonal":
            for layer in self.trunk:
                if isinstance(layer, nn.Linear | nn.Conv2d):
                    nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
                    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, obs: Tensor) -> Tensor:
        return self.trunk(obs)


def _convolutions(channels: int, encoder_model: str) -> list[nn.Module]:
    if encoder_model == "mnih":
        return dqn_convolutions(channels)
    layers: list[nn.Module] = []
    for width in (channels, 32, 32, 32):
        layers += [nn.Conv2d(width, 32, 3, stride=2, padding=1), nn.ELU()]
    return layers


class PartsEncoder(nn.Module):
    """Flat rows of a Dict observation: its images through convolutions each, then everything through one perceptron."""

    def __init__(self, parts: Sequence[Part], latent_dim: int, encoder_model: str, weight_init: str) -> None:
        super().__init__()
        self.widths = [part.width for part in parts]
        encoders: list[nn.Module] = []
        width = 0
        for part in parts:
            if part.image is None:
                encoders.append(nn.Identity())
                width += part.width
                continue
            encoder = ObservationEncoder(part.image, latent_dim, encoder_model, weight_init)
            encoders.append(nn.Sequential(nn.Unflatten(1, part.image), encoder, nn.ReLU()))
            width += latent_dim
        self.encoders = nn.ModuleList(encoders)
        self.head = ObservationEncoder((width,), latent_dim, encoder_model, weight_init)

    def forward(self, obs: Tensor) -> Tensor:
        pieces = zip(self.encoders, obs.split(self.widths, dim=1), strict=True)
        return self.head(torch.cat([encode(piece) for encode, piece in pieces], dim=1))


class InverseDynamicsModel(nn.Module):
    """Which action led from one state to the next: two latents → logits, or the mean of a continuous action."""

    def __init__(
        self, latent_dim: int, action_dim: int, encoder_model: str = "mnih", weight_init: str = "default"
    ) -> None:
        super().__init__()
        self.trunk = ObservationEncoder((2 * latent_dim,), action_dim, encoder_model, weight_init)

    def forward(self, obs: Tensor, next_obs: Tensor) -> Tensor:
        return self.trunk(torch.cat([obs, next_obs], dim=-1))


class ForwardDynamicsModel(nn.Module):
    """Which state an action leads to: latent and encoded action → next latent."""

    def __init__(
        self, latent_dim: int, action_dim: int, encoder_model: str = "mnih", weight_init: str = "default"
    ) -> None:
        super().__init__()
        self.trunk = ObservationEncoder((latent_dim + action_dim,), latent_dim, encoder_model, weight_init)

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.trunk(torch.cat([obs, actions], dim=-1))


class Distillation(nn.Module):
    """A network that learns a fixed random one; its squared error [batch] is large on what it has not seen."""

    def __init__(self, predictor: nn.Module, target: nn.Module) -> None:
        super().__init__()
        self.predictor, self.target = predictor, target.requires_grad_(False)

    def forward(self, obs: Tensor) -> Tensor:
        return (self.predictor(obs) - self.target(obs)).square().mean(dim=-1)
