"""Action distributions in closed form.

A distribution is made for an action space once, and given its parameters (logits, or means and log-deviations) for
each batch by :meth:`proba_distribution`. Log-probabilities and entropies of independent parts add up, so every method
returns one number per batch row. The matching ``torch.distributions`` object is built only when ``.distribution`` asks.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor
from torch import distributions as torch_distributions

from proximo.errors import ArgumentTypeError, ArgumentValueError
from proximo.functional.spaces import Space, get_action_dim
from proximo.networks.distributions.base import Distribution as Distribution
from proximo.networks.distributions.base import sum_independent_dims as sum_independent_dims
from proximo.networks.distributions.discrete import BernoulliDistribution as BernoulliDistribution
from proximo.networks.distributions.discrete import CategoricalDistribution as CategoricalDistribution
from proximo.networks.distributions.discrete import MaskableBernoulliDistribution as MaskableBernoulliDistribution
from proximo.networks.distributions.discrete import MultiCategoricalDistribution as MultiCategoricalDistribution
from proximo.networks.distributions.gaussian import DiagGaussianDistribution as DiagGaussianDistribution
from proximo.networks.distributions.gaussian import SquashedDiagGaussianDistribution as SquashedDiagGaussianDistribution
from proximo.networks.distributions.gaussian import TanhBijector as TanhBijector
from proximo.networks.distributions.hybrid import HybridDistribution as HybridDistribution
from proximo.networks.distributions.state_dependent import (
    StateDependentNoiseDistribution as StateDependentNoiseDistribution,
)


def make_proba_distribution(
    action_space: Space, use_sde: bool = False, dist_kwargs: dict[str, Any] | None = None
) -> Distribution:
    """The distribution of an action space.

    >>> make_proba_distribution(spaces.Discrete(3)).action_dim
    3
    """
    kwargs = dist_kwargs or {}
    if use_sde and not isinstance(action_space, spaces.Box):
        raise ValueError(f"state-dependent exploration (use_sde=True) needs a Box action space, got {action_space}")
    match action_space:
        case spaces.Box():
            kind = StateDependentNoiseDistribution if use_sde else DiagGaussianDistribution
            return kind(get_action_dim(action_space), **kwargs)
        case spaces.Discrete():
            return CategoricalDistribution(int(action_space.n), **kwargs)
        case spaces.MultiDiscrete():
            return MultiCategoricalDistribution(action_space.nvec.tolist(), **kwargs)
        case spaces.MultiBinary():
            return BernoulliDistribution(get_action_dim(action_space), **kwargs)
        case spaces.Dict() | spaces.Tuple():
            return HybridDistribution(action_space, make_proba_distribution)
    raise NotImplementedError(
        f"no distribution for action space {action_space}; use Box, Discrete, MultiDiscrete, MultiBinary, "
        "or a Dict or Tuple of these"
    )


def kl_divergence(dist_true: Distribution, dist_pred: Distribution) -> Tensor:
    """KL(true ‖ predicted) for two distributions of one kind; parts of MultiDiscrete and hybrid actions add up."""
    if type(dist_true) is not type(dist_pred):
        raise ArgumentTypeError(
            f"KL divergence needs two distributions of one kind, got {type(dist_true).__name__} "
            f"and {type(dist_pred).__name__}"
        )
    if isinstance(dist_true, MultiCategoricalDistribution):
        sizes, others = dist_true.action_dims, dist_pred.action_dims  # type: ignore[attr-defined]
        if sizes != others:
            raise ArgumentValueError(f"KL divergence needs two distributions of the same choices: {sizes} != {others}")
        pairs = zip(dist_true.distribution, dist_pred.distribution, strict=True)
        return torch.stack([torch_distributions.kl_divergence(p, q) for p, q in pairs], dim=1).sum(dim=1)
    if isinstance(dist_true, HybridDistribution):
        parts = zip(dist_true.parts, dist_pred.parts, strict=True)  # type: ignore[attr-defined]
        rows = [kl_divergence(p, q) for p, q in parts]
        return torch.stack([row.sum(dim=1) if row.dim() > 1 else row for row in rows]).sum(dim=0)
    return torch_distributions.kl_divergence(dist_true.distribution, dist_pred.distribution)
