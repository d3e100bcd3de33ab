"""Generalised state-dependent exploration (Raffin et al. 2021, https://arxiv.org/abs/2005.05719).

The noise of an action is a linear function of the policy's latent, noise = latent · W with W ~ N(0, σ²) drawn rarely,
so exploration is smooth in time. For one state the action is Gaussian with variance latent² · σ².
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch import distributions as torch_distributions

from proximo.networks.distributions.base import HALF_LOG_TWO_PI, Distribution, sum_independent_dims
from proximo.networks.distributions.gaussian import TanhBijector


class StateDependentNoiseDistribution(Distribution):
    """A Gaussian whose deviation depends on the latent, with noise matrices that stay until they are redrawn.

    ``full_std`` gives every (latent, action) pair its own deviation, else one per latent; ``use_expln`` keeps the
    deviation positive and growing slowly (exp below 0, log above); ``squash_output`` pushes actions through tanh.
    """

    latent_sde_dim: int
    mean_actions: Tensor  # [batch, action]
    std: Tensor  # [batch, action]
    exploration_mat: Tensor  # [latent, action]: for batches of any other size than the environments'
    exploration_matrices: Tensor  # [env, latent, action]

    def __init__(
        self,
        action_dim: int,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        learn_features: bool = False,
        epsilon: float = 1e-6,
    ) -> None:
        """Arguments:
        action_dim: Width of an action.
        full_std: Whether every pair of latent feature and action has a deviation of its own.
        use_expln: Whether deviations grow with the logarithm above 1.
        squash_output: Whether actions go through tanh.
        learn_features: Whether the noise sends gradients back into the latent.
        epsilon: What keeps a division or a logarithm from zero.
        """
        self.action_dim = self.parameter_width = action_dim
        self.full_std = full_std
        self.use_expln = use_expln
        self.learn_features = learn_features
        self.epsilon = epsilon
        self.bijector = TanhBijector(epsilon) if squash_output else None

    def proba_distribution_net(
        self, latent_dim: int, log_std_init: float = -2.0, latent_sde_dim: int | None = None
    ) -> tuple[nn.Module, nn.Parameter]:
        self.latent_sde_dim = latent_sde_dim or latent_dim
        columns = self.action_dim if self.full_std else 1
        log_std = nn.Parameter(torch.ones(self.latent_sde_dim, columns) * log_std_init)
        mean_actions = nn.Linear(
            latent_dim, self.action_dim
        )  # before the noise: seeded weights are the same without it
        self.sample_weights(log_std)
        return mean_actions, log_std

    def get_std(self, log_std: Tensor) -> Tensor:
        """The deviation of the noise weights, [latent, action]."""
        if self.use_expln:
            positive = log_std > 0
            # log1p sees no negative number, so that neither branch's gradient is NaN
            above = torch.log1p(torch.where(positive, log_std, 0.0) + self.epsilon) + 1.0
            std = torch.where(positive, above, torch.exp(torch.where(positive, 0.0, log_std)))
        else:
            std = torch.exp(log_std)
        return std if self.full_std else std.expand(self.latent_sde_dim, self.action_dim)

    def sample_weights(self, log_std: Tensor, batch_size: int = 1) -> None:
        """Redraw the noise matrices: one shared, and one for each of ``batch_size`` environments."""
        std = self.get_std(log_std).detach()  # the noise is drawn to act, nothing trains through it
        self.exploration_mat = std * torch.randn_like(std)
        self.exploration_matrices = std * torch.randn(batch_size, *std.shape, device=std.device)

    def use_weights(self, normals: Tensor, log_std: Tensor) -> None:
        """Take noise matrices made of given standard normal numbers, [env, action, latent]."""
        self.exploration_matrices = self.get_std(log_std).detach() * normals.transpose(1, 2)
        self.exploration_mat = self.exploration_matrices[0]

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor, latent_sde: Tensor) -> Self:
        self._latent = latent_sde if self.learn_features else latent_sde.detach()
        variance = self._latent.square() @ self.get_std(log_std).square()
        self.mean_actions, self.std = mean_actions, torch.sqrt(variance + self.epsilon)
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        gaussian = actions if self.bijector is None else self.bijector.inverse(actions)
        standardized = (gaussian - self.mean_actions) / self.std
        log_prob = sum_independent_dims(-0.5 * standardized.square() - self.std.log() - HALF_LOG_TWO_PI)
        if self.bijector is not None:
            log_prob = log_prob - self.bijector.log_prob_correction(gaussian).sum(dim=1)
        return log_prob

    def entropy(self) -> Tensor | None:
        if self.bijector is not None:
            return None
        return sum_independent_dims(0.5 + HALF_LOG_TWO_PI + self.std.log())

    def get_noise(self, latent_sde: Tensor) -> Tensor:
        """latent · W, with each environment's own W where the batch is one row per environment."""
        latent = latent_sde if self.learn_features else latent_sde.detach()
        if len(latent) == 1 or len(latent) != len(self.exploration_matrices):
            return latent @ self.exploration_mat.to(latent.device)
        return torch.bmm(latent.unsqueeze(1), self.exploration_matrices.to(latent.device)).squeeze(1)

    def sample(self) -> Tensor:
        return self._squashed(self.mean_actions + self.get_noise(self._latent))

    def mode(self) -> Tensor:
        return self._squashed(self.mean_actions)

    def _squashed(self, actions: Tensor) -> Tensor:
        return actions if self.bijector is None else self.bijector.forward(actions)

    @property
    def distribution(self) -> Any:
        return torch_distributions.Normal(self.mean_actions, self.std)
