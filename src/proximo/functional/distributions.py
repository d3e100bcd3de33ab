"""Action distributions in closed form.

A distribution is made for an action space once, and given its parameters (logits, or means and log-deviations) for
each batch by :meth:`proba_distribution`. Log-probabilities and entropies of independent parts add up, so every method
returns one number per batch row. The matching ``torch.distributions`` object is built only when ``.distribution`` asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch import distributions as torch_distributions
from torch.nn import functional

from proximo.functional.spaces import Space, get_action_dim

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum over the action dimension; a one-dimensional tensor is summed whole."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


class Distribution(ABC):
    """A distribution over the actions of one space."""

    @abstractmethod
    def proba_distribution_net(self, latent_dim: int) -> Any:
        """The layer that maps the policy's latent to this distribution's parameters."""

    @abstractmethod
    def proba_distribution(self, *parameters: Any) -> Self:
        """Set the parameters for a batch; returns itself."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """[batch]"""

    @abstractmethod
    def entropy(self) -> Tensor | None:
        """[batch], or None when there is no closed form."""

    @abstractmethod
    def sample(self) -> Tensor:
        """A random action for each batch row, differentiable where the distribution allows it."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The likeliest action for each batch row."""

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """The equivalent ``torch.distributions`` object (a list of them for MultiDiscrete)."""

    def get_actions(self, deterministic: bool = False) -> Tensor:
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *parameters: Any, deterministic: bool = False) -> Tensor:
        return self.proba_distribution(*parameters).get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *parameters: Any) -> tuple[Tensor, Tensor]:
        actions = self.actions_from_params(*parameters)
        return actions, self.log_prob(actions)


class DiagGaussianDistribution(Distribution):
    """Independent normals: log p(a) = Σᵢ −½((aᵢ − μᵢ)/σᵢ)² − log σᵢ − ½ log 2π."""

    mean_actions: Tensor  # [batch, action]
    log_std: Tensor  # [action]

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim

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
        return self.mean_actions + torch.exp(self.log_std) * torch.randn_like(self.mean_actions)

    def mode(self) -> Tensor:
        return self.mean_actions

    @property
    def distribution(self) -> torch_distributions.Normal:
        return torch_distributions.Normal(self.mean_actions, self.log_std.exp().expand_as(self.mean_actions))


class TanhBijector:
    """y = tanh(x) with a numerically safe inverse and the log-determinant that a squashed density needs."""

    def __init__(self, epsilon: float = 1e-6) -> None:
        self.epsilon = epsilon

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.tanh(x)

    @staticmethod
    def atanh(x: Tensor) -> Tensor:
        return 0.5 * (x.log1p() - (-x).log1p())

    @staticmethod
    def inverse(y: Tensor) -> Tensor:
        # one ulp inside ±1, so that atanh stays finite
        limit = 1.0 - torch.finfo(y.dtype).eps
        return TanhBijector.atanh(y.clamp(min=-limit, max=limit))

    def log_prob_correction(self, x: Tensor) -> Tensor:
        return torch.log(1.0 - torch.tanh(x) ** 2 + self.epsilon)


class SquashedDiagGaussianDistribution(DiagGaussianDistribution):
    """A diagonal Gaussian pushed through tanh, so that actions lie in [−1, 1]."""

    def __init__(self, action_dim: int, epsilon: float = 1e-6) -> None:
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


def _log_softmax_entropy(log_probs: Tensor) -> Tensor:
    # 0 · log 0 = 0: an action with probability zero adds nothing
    safe = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
    return -(safe.exp() * safe).sum(dim=-1)


def _sample_categorical(log_probs: Tensor) -> Tensor:
    return torch.multinomial(log_probs.exp(), 1).squeeze(-1)


class CategoricalDistribution(Distribution):
    """One choice among ``action_dim``: log p(a) = logits[a] − logsumexp(logits)."""

    log_probs: Tensor  # [batch, choice]

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, self.action_dim)

    def proba_distribution(self, action_logits: Tensor) -> Self:
        self.log_probs = functional.log_softmax(action_logits, dim=-1)
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long().reshape(-1, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return _log_softmax_entropy(self.log_probs)

    def sample(self) -> Tensor:
        return _sample_categorical(self.log_probs)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1)

    @property
    def distribution(self) -> torch_distributions.Categorical:
        return torch_distributions.Categorical(logits=self.log_probs)


class MultiCategoricalDistribution(Distribution):
    """Several independent choices; the logits of all of them stand side by side."""

    parts: list[CategoricalDistribution]

    def __init__(self, action_dims: Sequence[int]) -> None:
        self.action_dims = list(action_dims)
        self.parts = [CategoricalDistribution(size) for size in self.action_dims]

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, sum(self.action_dims))

    def proba_distribution(self, action_logits: Tensor) -> Self:
        for part, logits in zip(self.parts, action_logits.split(self.action_dims, dim=1), strict=True):
            part.proba_distribution(logits)
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        columns = actions.reshape(-1, len(self.parts)).unbind(dim=1)
        return torch.stack(
            [part.log_prob(column) for part, column in zip(self.parts, columns, strict=True)], dim=1
        ).sum(dim=1)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts], dim=1).sum(dim=1)

    def sample(self) -> Tensor:
        return torch.stack([part.sample() for part in self.parts], dim=1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=1)

    @property
    def distribution(self) -> list[torch_distributions.Categorical]:
        return [part.distribution for part in self.parts]


class BernoulliDistribution(Distribution):
    """Independent switches: log p(a) = Σᵢ aᵢ·logitᵢ − softplus(logitᵢ)."""

    action_logits: Tensor  # [batch, switch]

    def __init__(self, action_dims: int) -> None:
        self.action_dims = action_dims

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, self.action_dims)

    def proba_distribution(self, action_logits: Tensor) -> Self:
        self.action_logits = action_logits
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        return (actions * self.action_logits - functional.softplus(self.action_logits)).sum(dim=1)

    def entropy(self) -> Tensor:
        logits = self.action_logits
        return (functional.softplus(logits) - logits * torch.sigmoid(logits)).sum(dim=1)

    def sample(self) -> Tensor:
        return torch.bernoulli(torch.sigmoid(self.action_logits))

    def mode(self) -> Tensor:
        return torch.round(torch.sigmoid(self.action_logits))

    @property
    def distribution(self) -> torch_distributions.Bernoulli:
        return torch_distributions.Bernoulli(logits=self.action_logits)


def make_proba_distribution(
    action_space: Space, use_sde: bool = False, dist_kwargs: dict[str, Any] | None = None
) -> Distribution:
    """The distribution of an action space.

    >>> make_proba_distribution(spaces.Discrete(3)).action_dim
    3
    """
    if use_sde:
        raise NotImplementedError(
            "state-dependent exploration (use_sde=True) is not available in this version; use the Gaussian default"
        )
    kwargs = dist_kwargs or {}
    match action_space:
        case spaces.Box():
            return DiagGaussianDistribution(get_action_dim(action_space), **kwargs)
        case spaces.Discrete():
            return CategoricalDistribution(int(action_space.n), **kwargs)
        case spaces.MultiDiscrete():
            return MultiCategoricalDistribution(action_space.nvec.tolist(), **kwargs)
        case spaces.MultiBinary():
            return BernoulliDistribution(get_action_dim(action_space), **kwargs)
    raise NotImplementedError(
        f"no distribution for action space {action_space}; use Box, Discrete, MultiDiscrete or MultiBinary"
    )


def kl_divergence(dist_true: Distribution, dist_pred: Distribution) -> Tensor:
    """KL(true ‖ predicted) for two distributions of one kind; MultiDiscrete parts add up."""
    if type(dist_true) is not type(dist_pred):
        raise TypeError(
            f"KL divergence needs two distributions of one kind, got {type(dist_true).__name__} "
            f"and {type(dist_pred).__name__}"
        )
    if isinstance(dist_true, MultiCategoricalDistribution):
        pairs = zip(dist_true.distribution, dist_pred.distribution, strict=True)
        return torch.stack([torch_distributions.kl_divergence(p, q) for p, q in pairs], dim=1).sum(dim=1)
    return torch_distributions.kl_divergence(dist_true.distribution, dist_pred.distribution)
