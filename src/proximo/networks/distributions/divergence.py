"""KL divergence from a distribution that is stored as plain rows, in closed form for every distribution of the library.

A policy reuses one distribution object for all batches, so what it was must be kept as numbers: one row of parameters
per sample, which can be cut into minibatches like observations.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from proximo.networks.distributions.base import Distribution
from proximo.networks.distributions.discrete import (
    BernoulliDistribution,
    CategoricalDistribution,
    MultiCategoricalDistribution,
)
from proximo.networks.distributions.gaussian import DiagGaussianDistribution
from proximo.networks.distributions.hybrid import HybridDistribution
from proximo.networks.distributions.state_dependent import StateDependentNoiseDistribution


def parameter_rows(distribution: Distribution) -> Tensor:
    """The parameters of each sample, masks applied, [batch, width]: what :func:`kl_from_rows` reads."""
    match distribution:
        case CategoricalDistribution():
            return distribution.log_probs
        case BernoulliDistribution():
            return distribution.action_logits
        case DiagGaussianDistribution():
            mean = distribution.mean_actions
            return torch.cat([mean, distribution.log_std.expand_as(mean)], dim=1)
        case StateDependentNoiseDistribution():
            return torch.cat([distribution.mean_actions, distribution.std.log()], dim=1)
        case MultiCategoricalDistribution() | HybridDistribution():
            return torch.cat([parameter_rows(part) for part in distribution.parts], dim=1)
    raise _unknown(distribution)


def kl_from_rows(rows: Tensor, distribution: Distribution) -> Tensor:
    """KL(old ‖ ``distribution``) per sample, [batch], where ``rows`` are the old one's :func:`parameter_rows`.

    Parts of an action are independent, so their divergences add up. Squashing changes nothing: the divergence of two
    distributions is that of their images under one bijection.

    >>> old, new = CategoricalDistribution(2), CategoricalDistribution(2)
    >>> rows = parameter_rows(old.proba_distribution(torch.tensor([[0.0, 0.0]])))
    >>> kl_from_rows(rows, new.proba_distribution(torch.tensor([[0.0, 1.0]])))
    tensor([0.1201])
    """
    match distribution:
        case CategoricalDistribution():
            return (rows.exp() * (rows - distribution.log_probs)).sum(dim=1)
        case BernoulliDistribution():
            logits = distribution.action_logits
            gain = torch.sigmoid(rows) * (rows - logits)
            return (gain - functional.softplus(rows) + functional.softplus(logits)).sum(dim=1)
        case DiagGaussianDistribution():
            return _gaussian_kl(rows, distribution.mean_actions, distribution.log_std)
        case StateDependentNoiseDistribution():
            return _gaussian_kl(rows, distribution.mean_actions, distribution.std.log())
        case MultiCategoricalDistribution() | HybridDistribution():
            widths = [_row_width(part) for part in distribution.parts]
            pieces = zip(rows.split(widths, dim=1), distribution.parts, strict=True)
            return torch.stack([kl_from_rows(piece, part) for piece, part in pieces]).sum(dim=0)
    raise _unknown(distribution)


def _gaussian_kl(rows: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Σ log σ/σ₀ + ½ (σ₀/σ)² + ½ ((μ₀ − μ)/σ)² − ½, in a form that is exactly 0 for equal distributions."""
    old_mean, old_log_std = rows.chunk(2, dim=1)
    wider = log_std - old_log_std
    squares = torch.exp(-2.0 * wider) + (old_mean - mean).square() * torch.exp(-2.0 * log_std)
    return (wider + 0.5 * squares - 0.5).sum(dim=1)


def _row_width(part: Distribution) -> int:
    return 2 * part.parameter_width if isinstance(part, DiagGaussianDistribution) else part.parameter_width


def _unknown(distribution: Distribution) -> TypeError:
    return TypeError(
        f"no closed form of the KL divergence is known for {type(distribution).__name__}; PPG and augmentations need "
        "one of the library's own distributions (categorical, Bernoulli, Gaussian, state-dependent, hybrid)"
    )
