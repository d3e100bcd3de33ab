"""Continuous actions."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch import distributions as torch_distributions

from proximo.networks.distributions.base import HALF_LOG_TWO_PI, NORMAL, Distribution, sum_independent_dims


class DiagGaussianDistribution(Distribution):
    """Independent normals: log p(a) = Σᵢ −½((aᵢ − μᵢ)/σᵢ)² − log σᵢ − ½ log 2π."""

    mean_actions: Tensor  # [batch, action]
    log_std: Tensor  # [action]

    def __init__(self, action_dim: int) -> None:
        """Arguments:
        action_dim: Width of an action.
        """
        self.action_dim = self.parameter_width = action_dim
        self.noise_kinds = (NORMAL,) * action_dim

    def proba_distribution_net(self, latent_dim: int, log_std_init: float = 0.0) -> tuple[nn.Module, nn.Parameter]:
        return nn.Linear(latent_dim, self.action_dim), nn.Parameter(torch.ones(self.action_dim) * log_std_init)

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> Self:
        self.mean_actions, self.log_std = mean_actions, log_std
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        standardized = (actions - self.mean_actions) * torch.exp(-self.log_std)
        return sum_independent_dims(-0.5 * standardized.square() - self.log_std - HALF_LOG_TWO_PI)

    def entropy(self) -> Tensor | None:
        return sum_independent_dims((0.5 + HALF_LOG_TWO_PI + self.log_std).expand_as(self.mean_actions))

    def sample(self) -> Tensor:
        normal = self.take_noise()
        if normal is None:
            normal = torch.randn_like(self.mean_actions)
        return self.mean_actions + torch.exp(self.log_std) * normal

    def mode(self) -> Tensor:
        return self.mean_actions

    @property
    def distribution(self) -> torch_distributions.Normal:
        return torch_distributions.Normal(self.mean_actions, self.log_std.exp().expand_as(self.mean_actions))


class TanhBijector:
    """y = tanh(x) with a numerically safe inverse and the log-determinant that a squashed density needs."""

    def __init__(self, epsilon: float = 1e-6) -> None:
        """Arguments:
        epsilon: Keeps logarithms and inverses away from the ends.
        """
        self.epsilon = epsilon

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """tanh(x)."""
        return torch.tanh(x)

    @staticmethod
    def atanh(x: Tensor) -> Tensor:
        """The inverse of tanh, without a guard at the ends."""
        return 0.5 * (x.log1p() - (-x).log1p())

    @staticmethod
    def inverse(y: Tensor) -> Tensor:
        """The inverse of tanh, kept away from the ends."""
        # one ulp inside ±1, so that atanh stays finite
        limit = 1.0 - torch.finfo(y.dtype).eps
        return TanhBijector.atanh(y.clamp(min=-limit, max=limit))

    def log_prob_correction(self, x: Tensor) -> Tensor:
        """log(1 − tanh²(x)): what the density loses by squashing."""
        return torch.log(1.0 - torch.tanh(x) ** 2 + self.epsilon)


class SquashedDiagGaussianDistribution(DiagGaussianDistribution):
    """A diagonal Gaussian pushed through tanh, so that actions lie in [−1, 1]."""

    def __init__(self, action_dim: int, epsilon: float = 1e-6) -> None:
        """Arguments:
        action_dim: Width of an action.
        epsilon: Keeps logarithms and inverses away from the ends.
        """
        super().__init__(action_dim)
        self.epsilon = epsilon
        self.gaussian_actions: Tensor | None = None

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> Self:
        self.gaussian_actions = None
        return super().proba_distribution(mean_actions, log_std)

    def log_prob(self, actions: Tensor, gaussian_actions: Tensor | None = None) -> Tensor:
        if gaussian_actions is None:
            gaussian_actions = TanhBijector.inverse(actions)
        correction = torch.log(1.0 - actions**2 + self.epsilon)
        return super().log_prob(gaussian_actions) - correction.sum(dim=1)

    def entropy(self) -> Tensor | None:
        return None

    def sample(self) -> Tensor:
        self.gaussian_actions = super().sample()
        return torch.tanh(self.gaussian_actions)

    def mode(self) -> Tensor:
        self.gaussian_actions = self.mean_actions
        return torch.tanh(self.gaussian_actions)

    def log_prob_from_params(self, *parameters: Any) -> tuple[Tensor, Tensor]:
        actions = self.actions_from_params(*parameters)
        return actions, self.log_prob(actions, self.gaussian_actions)
