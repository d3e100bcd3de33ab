"""The networks of intrinsic rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from proximo.errors import near_matches
from proximo.networks.encoders import dqn_convolutions, flat_size

ENCODER_MODELS = ("mnih", "espeholt", "pathak")
WEIGHT_INITS = ("default", "orthogonal")


class ObservationEncoder(nn.Module):
    """Observations [batch, *obs_shape] → [batch, latent_dim].

    Images (channels first) go through convolutions: "mnih" has DQN's three; "pathak", also known as "espeholt",
    has four of 3 × 3 with stride 2, for images of any size. Everything else goes through one hidden layer of 256.
    """

    def __init__(
        self, obs_shape: Sequence[int], latent_dim: int, encoder_model: str = "mnih", weight_init: str = "default"
    ) -> None:
        super().__init__()
        if encoder_model not in ENCODER_MODELS:
            raise ValueError(f"unknown encoder_model {encoder_model!r}; {near_matches(encoder_model, ENCODER_MODELS)}")
        if weight_init not in WEIGHT_INITS:
            raise ValueError(f"unknown weight_init {weight_init!r}; {near_matches(weight_init, WEIGHT_INITS)}")
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

    def __init__(self, obs_shape: Sequence[int], latent_dim: int, encoder_model: str, weight_init: str) -> None:
        super().__init__()
        self.predictor = ObservationEncoder(obs_shape, latent_dim, encoder_model, weight_init)
        self.target = ObservationEncoder(obs_shape, latent_dim, encoder_model, weight_init).requires_grad_(False)

    def forward(self, obs: Tensor) -> Tensor:
        return (self.predictor(obs) - self.target(obs)).square().mean(dim=-1)
